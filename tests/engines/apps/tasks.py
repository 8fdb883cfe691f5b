"""A celery application whose broker is a directory."""
import time

from celery import Celery

QUEUE = {"data_folder_in": "/tmp/queue", "data_folder_out": "/tmp/queue"}

app = Celery("tasks", broker="filesystem://")
app.conf.update(broker_transport_options=QUEUE, task_acks_late=True)


@app.task
def work(seconds):
    print("task started", flush=True)
    time.sleep(seconds)
    print("task done", flush=True)
