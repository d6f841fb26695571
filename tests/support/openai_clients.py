"""Clients of OpenAI's API as their users write them; a program: python openai_clients.py URL MODEL.

It prints a JSON object with the result of each use, or the error. Models may be random, so schemas limit all answers.
"""

import json
import sys
from collections.abc import Callable
from typing import Any, Literal

HELLO = [{"role": "user", "content": "What is the weather in Kandy?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"town": {"type": "string", "maxLength": 8}, "unit": {"type": "string", "enum": ["C", "F"]}},
    "required": ["town", "unit"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather of a town.", "parameters": PARAMETERS, "strict": True},
}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


def of_openai(url: str, model: str, forecast: Any) -> dict[str, Callable[[], Any]]:
    import openai

    client = openai.OpenAI(base_url=url, api_key="-", max_retries=0)
    create, given = client.chat.completions.create, {"model": model, "messages": HELLO, "max_tokens": 300, "seed": 1}

    def parse() -> Any:
        return client.chat.completions.parse(**given, response_format=forecast).choices[0].message.parsed.model_dump()

    def parse_tools() -> Any:
        tools = [openai.pydantic_function_tool(forecast)]
        answer = client.chat.completions.parse(**given, tools=tools, tool_choice="required", parallel_tool_calls=False)
        return answer.choices[0].message.tool_calls[0].function.parsed_arguments.model_dump()

    def stream_parsed() -> Any:
        with client.chat.completions.stream(**given, response_format=forecast) as stream:
            kinds = {event.type for event in stream}
            return [*sorted(kinds), stream.get_final_completion().choices[0].message.parsed.model_dump()]

    def stream_tools() -> Any:
        calls: dict[int, Any] = {}
        for event in create(**given, tools=[WEATHER], tool_choice=NAMED, stream=True):
            for call in event.choices[0].delta.tool_calls or []:
                if call.index in calls:
                    calls[call.index].function.arguments += call.function.arguments
                else:
                    calls[call.index] = call
        return [json.loads(call.function.arguments) for call in calls.values()]

    def agent() -> Any:
        messages: list[Any] = [{"role": "developer", "content": "Be brief."}, *HELLO]
        tools = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
        answer = create(**{**given, "messages": messages}, **tools).choices[0]
        messages.append(answer.message)
        for call in answer.message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "18 C"})
        last = create(**{**given, "messages": messages, "max_tokens": 5}, tools=[WEATHER]).choices[0]
        return [answer.finish_reason, last.message.role]

    return {
        "parse": parse,
        "parse tools": parse_tools,
        "stream": stream_parsed,
        "stream tools": stream_tools,
        "agent": agent,
    }


def of_litellm(url: str, model: str, forecast: Any) -> dict[str, Callable[[], Any]]:
    import litellm

    given = {"model": f"openai/{model}", "api_base": url, "api_key": "-", "messages": HELLO, "max_tokens": 300, "seed": 1}
    forced = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}

    def complete() -> Any:
        answer = litellm.completion(**given, response_format=forecast)
        return forecast.model_validate_json(answer.choices[0].message.content).model_dump()

    def agent() -> Any:
        message = litellm.completion(**given, **forced).choices[0].message
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "name": "get_weather", "content": "18 C"}
        answer = litellm.completion(**{**given, "messages": [*HELLO, message.model_dump(), result]}, tools=[WEATHER])
        return [json.loads(message.tool_calls[0].function.arguments), answer.choices[0].message.role]

    def stream() -> Any:
        whole = litellm.stream_chunk_builder([*litellm.completion(**given, **forced, stream=True)]).choices[0]
        return [json.loads(whole.message.tool_calls[0].function.arguments), whole.finish_reason]

    return {"completion": complete, "agent": agent, "stream": stream}


def of_langchain(url: str, model: str, forecast: Any) -> dict[str, Callable[[], Any]]:
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    client = ChatOpenAI(model=model, base_url=url, api_key="-", max_tokens=300, seed=1, max_retries=0)

    @tool(args_schema=forecast)
    def get_forecast(**values: Any) -> str:
        """Return a forecast."""
        return "18 C"

    def structured(method: str) -> Callable[[], Any]:
        return lambda: client.with_structured_output(forecast, method=method).invoke("Kandy?").model_dump()

    def agent() -> Any:
        messages: list[Any] = [HumanMessage("Kandy?")]
        answer = client.bind_tools([get_forecast], tool_choice="any", parallel_tool_calls=False).invoke(messages)
        messages += [answer, *map(get_forecast.invoke, answer.tool_calls)]
        return [len(answer.tool_calls), client.bind_tools([get_forecast]).invoke(messages).type]

    def stream() -> Any:
        first, *others = client.bind_tools([get_forecast], tool_choice="get_forecast").stream("Kandy?")
        for other in others:
            first += other
        return [forecast.model_validate(call["args"]).model_dump() for call in first.tool_calls]

    methods = {method: structured(method) for method in ("json_schema", "function_calling")}
    return {**methods, "agent": agent, "stream": stream}


def of_instructor(url: str, model: str, forecast: Any) -> dict[str, Callable[[], Any]]:
    import instructor
    import openai

    given = {"model": model, "messages": HELLO, "max_tokens": 300, "seed": 1, "response_model": forecast, "max_retries": 0}

    def create(mode: str) -> Callable[[], Any]:
        client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="-"), mode=instructor.Mode[mode])
        return lambda: client.chat.completions.create(**given).model_dump()

    def partial() -> Any:
        client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="-"), mode=instructor.Mode.TOOLS)
        return [*client.chat.completions.create_partial(**given)][-1].model_dump()

    return {**{mode: create(mode) for mode in ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA")}, "partial": partial}


def main(url: str, model: str) -> dict[str, Any]:
    from pydantic import Field, create_model

    fields: dict[str, Any] = {
        "town": (str, Field(max_length=8)),
        "unit": (Literal["C", "F"], ...),
        "days": (list[Literal[1, 2, 3]], Field(max_length=2)),
    }
    forecast = create_model("Forecast", **fields)
    results: dict[str, Any] = {}
    for name, uses in (
        ("openai", of_openai),
        ("litellm", of_litellm),
        ("langchain", of_langchain),
        ("instructor", of_instructor),
    ):
        for use, run in uses(url, model, forecast).items():
            try:
                results[f"{name} {use}"] = run()
            except Exception as error:
                results[f"{name} {use}"] = {"error": f"{type(error).__name__}: {error}"[:500]}
    return results


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:]), default=str))
