#!/bin/sh
# What the tests need beside Python packages. As root on Debian it is installed, elsewhere it is asked for.
set -eu
missing=
for program in promtool prometheus amtool prometheus-alertmanager; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
# Elsewhere than in Debian the server is called as its authors call it.
[ "$missing" = " prometheus-alertmanager" ] && command -v alertmanager >/dev/null 2>&1 && missing=
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus prometheus-alertmanager; } >/tmp/tokometer-apt.log 2>&1 ||
        { echo "could not install prometheus and prometheus-alertmanager with apt: see /tmp/tokometer-apt.log" >&2; exit 1; }
else
    echo "make test needs on PATH:$missing. Install Prometheus and Alertmanager (Debian: apt-get install prometheus prometheus-alertmanager; elsewhere: prometheus.io/download)" >&2
    exit 1
fi
