#!/usr/bin/env python
import sys

from config.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
