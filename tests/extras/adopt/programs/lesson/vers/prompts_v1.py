PLAN = "Plan the lesson (old way)."
GRADE = "Grade the homework strictly."
