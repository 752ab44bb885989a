"""One module per paper: its state machine; the team; the outer evolution. The one place where parts are wired."""
