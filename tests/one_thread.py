"""Linear algebra on one thread, as in a sidecar: imported before whatever loads numpy.

Its threads wait for one another in loops: with other suites beside them two take ten times the
processor time of one.
"""

from runtime.settings import keep_to_one_thread

keep_to_one_thread()
