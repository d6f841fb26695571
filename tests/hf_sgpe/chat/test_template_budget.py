"""Chat templates that would need unlimited time or memory."""

import pytest
from hypothesis import given, strategies as st

from hf_sgpe import SGPEError
from hf_sgpe.chat.template_budget import MOST_SIZE, Budget, size_of
from hf_sgpe.chat.templates import render

MESSAGES = [{"role": "user", "content": "a"}]


def growing(start, growth, end="ns.x"):
    grown = "{% for i in range(60) %}{% set ns.x = GROWTH %}{% endfor %}".replace("GROWTH", growth)
    return f"{{% set ns = namespace(x={start}) %}}{grown}{{{{ {end} }}}}"


LONG = "{% set x = 'a'*4000000 %}"


ENDLESS = {
    "power": "{{ 9**(9**9) }}",
    "nested ranges": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "macro that calls itself twice": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "macro that calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "recursive loop": "{% for m in messages recursive %}{{ loop(messages) }}{{ loop(messages) }}{% endfor %}",
    "comparison": LONG + "{% set y = 'a'*4000000 %}{% for i in range(99999) %}{% if x == y %}{% endif %}{% endfor %}",
    "search": LONG + "{% for i in range(99999) %}{% if 'aab' in x %}{% endif %}{% endfor %}",
    "test": LONG + "{{ range(99999)|map('string')|select('in', x)|list|length }}",
    "slices": LONG + "{% for i in range(99999) %}{% set y = x[1:] %}{% endfor %}",
    "filter in a loop": LONG + "{% for i in range(99999) %}{% set y = x|upper %}{% endfor %}",
    "reading lists": "{% for i in range(99999) %}{% set y = range(99999)|sum %}{% endfor %}",
    "reading texts": "{% set x = 'a '*4000000 %}{% for i in range(99999) %}{% set y = x|wordcount %}{% endfor %}",
    "hashes": "{% set t = (1,)*500000 %}{% set d = {} %}{% for i in range(99999) %}{% set z = d.get(t) %}{% endfor %}",
    "lazy filters": "{% set x = [0]*500000 %}{% for i in range(99999) %}{% set y = x|select|first %}{% endfor %}",
    "random text": "{{ lipsum(n=10**9) }}",
}
TOO_LARGE = {
    "strings joined": growing("'a'", "ns.x ~ ns.x"),
    "strings added": growing("'a'", "ns.x + ns.x"),
    "strings formatted": growing("'a'", "'%s%s' % (ns.x, ns.x)"),
    "strings formatted by a method": growing("'a'", "'{0}{0}'.format(ns.x)"),
    "lists": growing("[1]", "ns.x + ns.x", "ns.x|length"),
    "lists of lists": growing("[1]", "[ns.x, ns.x]", "ns.x|tojson"),
    "dictionaries": growing("{}", "{'a': ns.x, 'b': ns.x}"),
    "dict()": growing("{}", "dict(a=ns.x, b=ns.x)"),
    "numbers": growing("9", "ns.x * ns.x"),
    "repetition": "{{ 'a'*10**9 }}",
    "repetition of a list": "{{ 10**9*[1] }}",
    "wordwrap": "{{ ('a'*10**9)|wordwrap }}",
    "wordwrap of a long word": "{{ ('a'*4000000)|wordwrap(1) }}",
    "center": "{{ 'a'|center(10**9) }}",
    "indent": "{{ 'a\nb'|indent(10**9) }}",
    "ljust": "{{ 'a'.ljust(10**10) }}",
    "expandtabs": "{{ '\t'.expandtabs(10**9) }}",
    "width": "{{ '%0999999999d' % 1 }}",
    "width of a filter": "{{ '%0999999999d'|format(1) }}",
    "width of a method": "{{ '{:>999999999}'.format(1) }}",
    "width as an argument": "{{ '%*d' % (10**9, 1) }}",
    "width as an argument of a method": "{{ '{0:{1}}'.format('a', 10**9) }}",
    "width as a text": "{{ '{:{}}'.format('a', '1500000000') }}",
    "width in a list": "{{ '{0[0]:{0[1]}}'.format(['a', 1500000000]) }}",
    "many widths": "{{ ('%(a)99999d' * 15000) % {'a': 1} }}",
    "many widths of a method": "{{ ('{a:x^99999}' * 15000).format(a=1) }}",
    "precision": "{{ '%.99999999f' % 1 }}",
    "date": "{{ strftime_now('%9999Y' * 200000)|length }}",
    "date with a width": "{{ strftime_now('%99999Y')|length }}",
    "rounding": "{{ 42.5|round(100000000, 'floor') }}",
    "urlize": "{{ (('.' * 130000) ~ 'x.')|urlize|length }}",
    "bytes": "{{ 'a'.encode() * 2000000000 }}",
    "method of bytes": "{{ 'a'.encode().center(2000000000) }}",
    "method of a number": "{{ (1).to_bytes(2000000000, 'big') }}",
    "separators": "{{ ([1]*300)|tojson(separators=['x'*8000000, ':'])|length }}",
    "indentation": "{{ ([1]*300)|tojson(indent='x'*8000000)|length }}",
    "width in a mapping": "{{ '{a:{b}}'.format_map({'a': 'a', 'b': 10**9}) }}",
    "replace": "{% set x = 'a'*100000 %}{{ x.replace('a', x) }}",
    "replace of nothing": "{% set x = 'a'*100000 %}{{ x|replace('', x) }}",
    "join": "{% set x = 'a'*100000 %}{{ range(99999)|join(x) }}",
    "join of characters": "{% set x = 'a'*100000 %}{{ x.join(x) }}",
    "join of an iterator": "{% set x = 'a'*100000 %}{{ x.join(range(99999)|map('string')) }}",
    "one value repeated by a format": "{% set x = 'a'*1000000 %}{{ ('{0}'*100000).format(x) }}",
    "translate": "{% set x = 'a'*1000000 %}{{ x.translate({97: x}) }}",
    "split": "{{ ('a '*2000000).split()|length }}",
    "characters": "{% for c in 'a'*4000000 %}{% endfor %}",
    "list of characters": "{{ ('a'*4000000)|list|length }}",
    "slice": "{{ [1]|slice(10**9)|list|length }}",
    "batch": "{{ [1]|batch(10**9, 1)|list|length }}",
    "tojson": "{{ [[[1]]]|tojson(indent=10**9) }}",
    "sum of lists": "{{ (range(99999)|batch(1)|list)|sum(start=[])|length }}",
}


@pytest.mark.parametrize("name", [*ENDLESS, *TOO_LARGE])
def test_a_template_that_needs_too_much_is_refused_with_a_reason(name):
    with pytest.raises(SGPEError, match=r"chat template: \S+"):
        render(MESSAGES, (ENDLESS | TOO_LARGE)[name])


def test_a_refused_template_leaves_the_budget_of_the_next_one():
    for _ in range(3):
        with pytest.raises(SGPEError):
            render(MESSAGES, ENDLESS["nested ranges"])
        assert render(MESSAGES, "{% for i in range(5000) %}{{ i % 10 }}{% endfor %}") == "0123456789" * 500


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ '%*d|%s|%%' % (4, 1, 5) }}", "   1|5|%"),
        ("{{ 'since 20240101: {:,} {}'.format(1234567, 'a') }}", "since 20240101: 1,234,567 a"),
        ("{{ '20240101 %s' % 20240101 }}", "20240101 20240101"),
        ("{{ namespace(x=20240101).x }}{{ 20240101|default(5) }}", "2024010120240101"),
        ("{{ 'a,b'.split(',')|join('; ') }}{{ 'a\nb'|indent(2) }}{{ [1, 2]|sum }}", "a; ba\n  b3"),
    ],
)
def test_ordinary_operations_fit(template, text):
    assert render(MESSAGES, template) == text


def test_long_conversations_fit():
    messages = [{"role": role, "content": "a message of some length, " * 40} for role in ("user", "assistant")] * 500
    for name in ("llama3", "chatml"):
        assert len(render(messages, name)) > 1_000_000


nested = st.recursive(st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner))


@given(nested)
def test_sizes_count_all_characters(value):
    def characters(item):
        if isinstance(item, str):
            return len(item)
        return sum(map(characters, item)) + (sum(map(characters, item.values())) if isinstance(item, dict) else 0)

    def items(item):
        inner = [] if isinstance(item, str) else list(item.values()) if isinstance(item, dict) else item
        return len(inner) + sum(map(items, inner))

    assert size_of(value) == characters(value) + 16 * items(value)


def test_sizes_of_values_inside_one_another_many_times_end_early():
    value = ["a"]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(SGPEError, match="characters"):
        size_of(value)
    assert Budget().sized("a" * MOST_SIZE) == "a" * MOST_SIZE
