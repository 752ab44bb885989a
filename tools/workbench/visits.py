"""Operations on visits to the company's site; only plots change a table."""

import json
from collections.abc import Callable
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


def _make_daily_operation(name: str, description: str, figure: Callable[[list[Row]], float]) -> Operation:
    def act(tables: Tables, time_min: str, time_max: str) -> str:
        return format_per_day(tables.visits, time_min, time_max, figure)

    return Operation(name, description, _DAYS, act)


def _count_engaged(day: list[Row]) -> int:
    return sum(visit["user_engaged"] == "True" for visit in day)


def _average_seconds(day: list[Row]) -> float:
    return fmean(float(visit["session_duration_seconds"]) for visit in day)


def _count_source(tables: Tables, time_min: str, time_max: str, traffic_source: str) -> str:
    def count(day: list[Row]) -> int:
        return sum(not traffic_source or visit["traffic_source"] == traffic_source for visit in day)

    return format_per_day(tables.visits, time_min, time_max, count)


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
        {**_DAYS, "value_to_plot": f"One of {', '.join(METRICS)}.", "plot_type": f"One of {', '.join(PLOTS)}."},
        _plot,
        ("time_min", "time_max", "value_to_plot", "plot_type"),
        changes=True,
    ),
    _make_daily_operation("analytics_total_visits_count", "Count the visits of each day.", len),
    _make_daily_operation("analytics_engaged_users_count", "Count the engaged users of each day.", _count_engaged),
    Operation(
        "analytics_traffic_source_count",
        "Count the visits of each day that came from one source.",
        {**_DAYS, "traffic_source": "direct, referral, search engine or social media; empty for all."},
        _count_source,
    ),
    _make_daily_operation(
        "analytics_get_average_session_duration", "Average the seconds of a session on each day.", _average_seconds
    ),
)
