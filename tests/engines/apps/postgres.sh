#!/bin/sh
# PostgreSQL with its files and its socket in /tmp, made at the first start.
PATH=/usr/lib/postgresql/15/bin:$PATH
[ -d /tmp/data ] || initdb --no-sync -D /tmp/data > /dev/null || exit
exec postgres -D /tmp/data -k /tmp -c listen_addresses=
