"""Does one job of two seconds after the other. Finishes the current one at SIGTERM, unless told to be `simple`."""
import signal
import sys
import time

stopping = False


def stop(*_):
    global stopping
    stopping = True
    print("got SIGTERM", flush=True)


if "simple" not in sys.argv:
    signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while not stopping:
    time.sleep(2)
    print("job done", flush=True)
