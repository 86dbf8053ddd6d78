#!/bin/sh
# Start all of docker-compose.yml: makes the secrets that are missing, then brings it up and waits
# until everything is healthy. What is given is handed on to `docker compose up`.
set -eu
cd "$(dirname "$0")/.."

secrets=deploy/secrets
mkdir -p "$secrets"
# Engines hand files over with the rights that they have here, and each service has a user of its
# own: so the files can be read by all, and the folder be entered by its owner alone.
chmod 0700 "$secrets"
for name in store_password grafana_password; do
    if [ ! -s "$secrets/$name" ]; then
        # 32 random bytes, written whole or not at all.
        od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' > "$secrets/.$name.new"
        chmod 0644 "$secrets/.$name.new"
        mv "$secrets/.$name.new" "$secrets/$name"
        echo "made $secrets/$name"
    fi
done

if ! docker compose version > /dev/null 2>&1; then
    echo "deploy/up.sh: \`docker compose\` (version 2.24 or newer) is not there; install Docker's compose plugin" >&2
    exit 1
fi
docker compose build
docker compose run --rm migrate
docker compose up --wait "$@"
cat <<'TOLD'
Flyball serves.
  agents    http://127.0.0.1:8700/mcp and /v1
  console   http://flyball.localhost:8701/console
  Grafana   http://127.0.0.1:3000   user admin, password in deploy/secrets/grafana_password
  tokens    docker compose exec flyball cat /var/lib/flyball/admin.token   (and agent.token)
TOLD
