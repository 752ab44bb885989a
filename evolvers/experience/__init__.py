"""What a team learns in words from comparing runs: a library of insights, and how they are found again."""
