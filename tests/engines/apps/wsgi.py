"""A WSGI application that needs two seconds for an answer."""
import time


def application(environ, start_response):
    print("busy", flush=True)
    time.sleep(2)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
