"""Templates of models that call tools, one for each format of calls, and answers with two calls of ``add``."""

from hf_sgpe.generation import Engine, TextGenerator
from hf_sgpe.serving.requests import Served
from support.conversations import OTHERS, SPECIAL, STYLES, bytes_with

MARKS = [*SPECIAL, "[ARGS]", "[CALL_ID]"]
_, TOKENIZER = bytes_with(MARKS, OTHERS, roles={"bos_token": "<s>", "eos_token": "</s>"})
CALL = '{"name": "add", "arguments": {"a": 1}}'
CODER = """{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- for tool in tools %}{{- '<function>\\n<name>' ~ tool.function.name ~ '</name>' ~ (tool | tojson | safe) }}{%- endfor %}
{{- '<tool_call>\\n<function=f>\\n<parameter=p>\\nvalue\\n</parameter>\\n</function>\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
        {%- for name, value in call.function.arguments | items %}
            {%- set value = value | tojson | safe if value is mapping or value is iterable else value | string %}
            {{- '<parameter=' + name + '>\\n' }}{{- value }}{{- '\\n</parameter>\\n' }}
        {%- endfor %}
        {{- '</function>\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}{{- '<|im_start|>assistant\\n' }}"""
NAMED = """{{- bos_token }}
{%- if tools %}{{- '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- message.content or '' }}
        {%- for call in message.tool_calls or [] %}
            {{- '[TOOL_CALLS]' + call.function.name + '[CALL_ID]' + call.id }}
            {{- '[ARGS]' + (call.function.arguments | tojson) }}
        {%- endfor %}
        {{- eos_token }}
    {%- elif message.role == 'tool' %}{{- '[TOOL_RESULTS]' + message.tool_call_id + message.content + '[/TOOL_RESULTS]' }}
    {%- else %}{{- '[INST]' + message.content + '[/INST]' }}
    {%- endif %}
{%- endfor %}"""
GLM = """{%- if tools %}{{- '<|system|>\\n' ~ (tools | tojson) }}
{{- '<tool_call>{name}\\n<arg_key>{key}</arg_key>\\n<arg_value>{value}</arg_value>\\n</tool_call>' }}{%- endif %}
{%- for message in messages %}
    {{- '<|' + ('user' if message.role == 'tool' else message.role) + '|>\\n' + (message.content or '') }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>' + call.function.name + '\\n' }}
        {%- for name, value in call.function.arguments | items %}
            {{- '<arg_key>' + name + '</arg_key>\\n<arg_value>' }}
            {{- (value if value is string else value | tojson) + '</arg_value>\\n' }}
        {%- endfor %}{{- '</tool_call>' }}
    {%- endfor %}
{%- endfor %}{{- '<|assistant|>\\n' }}"""
TEMPLATES = {**STYLES, "coder": CODER, "named": NAMED, "glm": GLM}
TAGGED = "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
ANSWERS = {
    "named": 'Well.[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]add[CALL_ID]123456789[ARGS]{"a": 1}',
    "coder": f"Well.\n{TAGGED}\n{TAGGED}",
    "qwen": f"Well.\n<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>",
    "mistral": f"Well.[TOOL_CALLS] [{CALL}, {CALL}]",
    "glm": "Well.\n" + "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n" * 2,
    "llama": f"<|python_tag|>{CALL}; {CALL}".replace("arguments", "parameters"),
}


def served_by(engine: Engine, style: str) -> Served:
    generator = TextGenerator(TOKENIZER, engine)
    return Served(style, generator, generator.chat(template=TEMPLATES[style]))
