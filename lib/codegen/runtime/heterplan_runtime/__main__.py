import os
import sys

from .main import leave, main

if __name__ == "__main__":
    status = main()
    if "RANK" in os.environ:
        leave(status)
    sys.exit(status)
