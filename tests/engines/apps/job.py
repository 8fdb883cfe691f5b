"""A batch job of two minutes that cleans up at SIGTERM and, as many do, then exits 0."""
import signal
import sys
import time


def stop(*_):
    print("got SIGTERM, cleaning up", flush=True)
    time.sleep(0.5)
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(120)
print("result written", flush=True)
