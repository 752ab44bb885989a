"""`python -m selfwire` is the command line."""

from selfwire.cli import main

main()
