"""A server for generation, with the routes of OpenAI's API: ``hf-sgpe serve``.

`requests` reads what is asked and `answers` writes what is said, both without HTTP; `line` is what waits for the engine;
`app` has the routes, for any ASGI server, and `server` runs it by uvicorn.
"""
