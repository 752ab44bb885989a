from .flow import intake_graph
from .lawyers import EmploymentLawyer, TenancyLawyer

__all__ = ["intake_graph", "EmploymentLawyer", "TenancyLawyer"]
