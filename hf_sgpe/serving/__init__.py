"""``hf-sgpe serve``: a server for text generation with the routes of OpenAI's API.

`requests` reads requests and `answers` writes answers, both without HTTP. `request_queue` holds the requests that wait for
the engine, `routes` has the routes for any ASGI server, and `server` runs them with uvicorn.
"""
