"""``hf-sgpe serve``: a server for text generation with the routes of OpenAI's API.

`requests` reads requests with the help of `parameters` and `template_parameters`, and `answers` writes answers.
None of these modules uses HTTP. `request_queue` holds the requests that wait for the engine. `routes` defines the routes,
for any ASGI server. `access` checks requests, `monitoring` measures them, and `server` runs the routes with uvicorn.
"""
