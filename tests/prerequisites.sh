#!/bin/sh
# What the tests need beside Python packages. As root on Debian it is installed, elsewhere it is asked for.
set -eu
command -v promtool >/dev/null 2>&1 && command -v prometheus >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; } >/tmp/tokometer-apt.log 2>&1 ||
        { echo "could not install prometheus with apt: see /tmp/tokometer-apt.log" >&2; exit 1; }
else
    echo "make test needs prometheus and promtool on PATH: install Prometheus (Debian: apt-get install prometheus; macOS: brew install prometheus)" >&2
    exit 1
fi
