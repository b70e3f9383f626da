"""`python -m quarterdeck`: the command, for where it is not on the path."""

from quarterdeck.command import main

main()
