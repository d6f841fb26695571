import pytest
from support.calling import TEMPLATES

from hf_sgpe.chat.template_probes import fields_without_content, knows_developer

CALLS = "{% for call in m.tool_calls or [] %}{{ call.function.arguments | tojson }}{% endfor %}"


def each(written):
    return f"{{% for m in messages %}}{written}{{% endfor %}}"


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        (each("{{ m.content }}" + CALLS), {}),
        (each("{{ m.content.strip() }}" + CALLS), {"content": ""}),
        (each("{% if m['content'] is none %}" + CALLS + "{% else %}{{ m['content'] + '' }}{% endif %}"), {"content": None}),
        (each("{{ m.content }}"), {}),  # writes no calls
        (each("{{ m.content + '' }}"), {"content": ""}),  # writes no calls, either
        (each("{{ m.content if loop.last else m.content + '' }}" + CALLS), {"content": ""}),
        *((template, {"content": ""} if name == "chatml" else {}) for name, template in TEMPLATES.items()),
    ],
)
def test_missing_content_has_the_form_with_which_the_template_writes_calls(template, fields):
    assert dict(fields_without_content(template)) == fields


def test_a_template_that_rejects_the_role_developer_does_not_know_it():
    assert knows_developer(each("{{ m.role + m.content }}"))
    assert not knows_developer(each("{% if m.role == 'user' %}{{ m.content }}{% endif %}"))
    assert not knows_developer(each("{% if m.role == 'developer' %}{{ raise_exception('no') }}{% endif %}"))
