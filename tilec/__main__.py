"""`python -m tilec` is the command `tilec`."""

from tilec.cli.main import main

if __name__ == "__main__":
    main()
