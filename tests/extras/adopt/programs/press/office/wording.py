HEADLINE_PROMPT = "You write headlines of at most six words."
LEAD_PROMPT = "You write the first paragraph of {kind} news."
TIMEOUT = "ten"
