#!/bin/sh
# One task of as many seconds in the queue, and a worker. Usage: celery.sh SECONDS
python3 -c "import tasks; tasks.work.delay($1)"
exec celery -A tasks worker --concurrency 1 --loglevel INFO
