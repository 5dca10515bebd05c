"""``python -m partition_ops.cli``."""

import sys

from partition_ops.cli import main

sys.exit(main())
