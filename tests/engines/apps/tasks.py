"""A celery application whose broker listens in a directory that both containers have."""
import time

from celery import Celery

app = Celery("tasks", broker="redis+socket:///broker/redis.sock")
app.conf.task_acks_late = True


@app.task
def work(seconds):
    print("task started", flush=True)
    time.sleep(seconds)
    print("task done", flush=True)
