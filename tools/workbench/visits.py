"""Operations on visits to the company's site; only plots change a table."""

import json
from statistics import fmean

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.tables import Operation, Row, Tables, check_known, format_per_day

METRICS = (
    "total_visits",
    "session_duration_seconds",
    "user_engaged",
    "visits_direct",
    "visits_referral",
    "visits_search_engine",
    "visits_social_media",
)
PLOTS = ("bar", "line", "scatter", "histogram")
_DAYS = {"time_min": "First day, YYYY-MM-DD.", "time_max": "Last day, YYYY-MM-DD."}


def _get(tables: Tables, visitor_id: str) -> str:
    found = [dict(visit) for visit in tables.visits if visit["visitor_id"] == visitor_id]
    if not found:
        raise ToolError(f"there is no visitor {visitor_id!r}")
    return json.dumps(found)


def _plot(tables: Tables, time_min: str, time_max: str, value_to_plot: str, plot_type: str) -> str:
    metric, kind = check_known(value_to_plot, METRICS, "value to plot"), check_known(plot_type, PLOTS, "type of plot")
    path = f"plots/{time_min}_{time_max}_{metric}_{kind}.png"
    tables.plots.append({"file_path": path})
    return path


def _total(tables: Tables, time_min: str, time_max: str) -> str:
    return format_per_day(tables.visits, time_min, time_max, len)


def _engaged(tables: Tables, time_min: str, time_max: str) -> str:
    return format_per_day(
        tables.visits, time_min, time_max, lambda day: sum(one["user_engaged"] == "True" for one in day)
    )


def _sources(tables: Tables, time_min: str, time_max: str, traffic_source: str) -> str:
    def count(day: list[Row]) -> int:
        return sum(not traffic_source or one["traffic_source"] == traffic_source for one in day)

    return format_per_day(tables.visits, time_min, time_max, count)


def _duration(tables: Tables, time_min: str, time_max: str) -> str:
    def mean(day: list[Row]) -> float:
        return fmean(float(one["session_duration_seconds"]) for one in day)

    return format_per_day(tables.visits, time_min, time_max, mean)


OPERATIONS = (
    Operation(
        "analytics_get_visitor_information_by_id",
        "Look up all visits of a visitor.",
        {"visitor_id": "Digits."},
        _get,
        ("visitor_id",),
    ),
    Operation(
        "analytics_create_plot",
        "Plot a figure over a span of days; returns the path of the picture.",
        {
            **_DAYS,
            "value_to_plot": f"One of {', '.join(METRICS)}.",
            "plot_type": f"One of {', '.join(PLOTS)}.",
        },
        _plot,
        ("time_min", "time_max", "value_to_plot", "plot_type"),
        changes=True,
    ),
    Operation("analytics_total_visits_count", "Count the visits of each day.", _DAYS, _total),
    Operation("analytics_engaged_users_count", "Count the engaged users of each day.", _DAYS, _engaged),
    Operation(
        "analytics_traffic_source_count",
        "Count the visits of each day that came from one source.",
        {**_DAYS, "traffic_source": "direct, referral, search engine or social media; empty for all."},
        _sources,
    ),
    Operation(
        "analytics_get_average_session_duration", "Average the seconds of a session on each day.", _DAYS, _duration
    ),
)
