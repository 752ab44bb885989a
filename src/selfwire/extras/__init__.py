"""Parts that entry points name and nothing else imports: offline model, pages, workers, contestants, lab."""
