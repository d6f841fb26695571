"""``hf-sgpe serve``: a server for text generation with the routes of OpenAI's API.

`requests` reads requests, with `parameters`, `stopping` and `template_parameters`, and `answers` writes answers, all without
HTTP. `request_queue` holds the requests that wait for the engine. `routes` has the routes for any ASGI server. `access` and
`monitoring` check and count requests, and `server` runs the routes with uvicorn.
"""
