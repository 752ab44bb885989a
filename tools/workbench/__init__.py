"""WorkBench's office: 27 operations on calendar, mail, site visits, projects and customers (Styles et al., 2024)."""
