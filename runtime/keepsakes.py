"""What a state directory holds beside the store that a backup has to bring back."""

from runtime.gate_key import KEY_NAME
from runtime.probes import FOLDER
from runtime.token_files import ADMIN_FILE, AGENT_FILE

# Sockets, locks, and the folders of processes that run are made anew at each start.
KEPT = (ADMIN_FILE, AGENT_FILE, KEY_NAME, FOLDER)
