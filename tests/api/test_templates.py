"""Templates render as Go renders them, or are refused. The cases were checked against Go's `text/template`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.api import InvalidTemplate, Template, TemplateContext
from noctaya.api.templates import render

CONTEXT = TemplateContext(model_path="Qwen/Qwen3-8B", service_name="qwen", service_namespace="ai")


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("--model={{ .Model.Path }}", "--model=Qwen/Qwen3-8B"),
        ("{{.Service.Namespace}}/{{.Service.Name}}", "ai/qwen"),
        ("{{   .Model.Path\t}}", "Qwen/Qwen3-8B"),
        ("{{\n.Model.Path\r\n}}", "Qwen/Qwen3-8B"),
        ("a {{- .Service.Name }} b", "aqwen b"),
        ("a {{ .Service.Name -}} b", "a qwenb"),
        ("a \r\n\t{{-\n.Service.Name\t-}}\n b", "aqwenb"),
        ("{{ .Service.Name -}}  {{- .Service.Name }}", "qwenqwen"),
        ("{{ .Service.Name -}} \n", "qwen"),
        ("a\N{NO-BREAK SPACE}{{- .Service.Name }}", "a\N{NO-BREAK SPACE}qwen"),
        ("}} { { }", "}} { { }"),
        ("{{ .Service.Name }}}}", "qwen}}"),
        ("", ""),
    ],
)
def test_text_and_fields_render_as_in_go(text: str, rendered: str) -> None:
    assert render(text, CONTEXT) == rendered


@pytest.mark.parametrize(
    ("text", "expression", "line", "column", "says"),
    [
        ("--x={{ .Model.Name }}", "{{ .Model.Name }}", 1, 5, "no such field"),
        ("{{ .Model }}", "{{ .Model }}", 1, 1, "no such field"),
        ("{{ . }}", "{{ . }}", 1, 1, "no such field"),
        ("{{ .model.path }}", "{{ .model.path }}", 1, 1, "no such field"),
        ("a\nbc{{ .Model.Path | quote }}", "{{ .Model.Path | quote }}", 2, 3, "pipelines"),
        ("{{ if .Model.Path }}x{{ end }}", "{{ if .Model.Path }}", 1, 1, "only fields"),
        ("{{ .Model.Path }}{{ printf .X }}", "{{ printf .X }}", 1, 18, "only fields"),
        ("{{/* why */}}", "{{/* why */}}", 1, 1, "comments"),
        ('{{ "{{" }}', '{{ "{{" }}', 1, 1, "only fields"),
        ("{{ .Model .Path }}", "{{ .Model .Path }}", 1, 1, "only fields"),
        ("{{-.Model.Path}}", "{{-.Model.Path}}", 1, 1, "only fields"),
        ("{{.Model.Path-}}", "{{.Model.Path-}}", 1, 1, "only fields"),
        ("{{}}", "{{}}", 1, 1, "empty"),
        ("{{- -}}", "{{- -}}", 1, 1, "empty"),
        ("x\n\n {{ .Model.Path }", "{{ .Model.Path }", 3, 2, "not closed"),
        ("{{\N{NO-BREAK SPACE}.Model.Path }}", "{{\N{NO-BREAK SPACE}.Model.Path }}", 1, 1, "only fields"),
    ],
)
def test_everything_else_is_refused_with_its_position(
    text: str, expression: str, line: int, column: int, says: str
) -> None:
    with pytest.raises(InvalidTemplate, match=says) as refusal:
        Template.parse(text)
    assert refusal.value.expression == expression
    assert (refusal.value.line, refusal.value.column) == (line, column)
    assert text[refusal.value.offset :].startswith("{{")
    assert f"{expression} at line {line}, column {column}" in str(refusal.value)


@given(st.text().filter(lambda text: "{{" not in text))
def test_text_without_actions_renders_to_itself(text: str) -> None:
    template = Template.parse(text)
    assert template.is_literal
    assert template.render(CONTEXT) == text


@given(st.text(alphabet=st.sampled_from("{}-. \nMSx"), max_size=30))
def test_no_text_does_more_than_render_or_be_refused(text: str) -> None:
    try:
        template = Template.parse(text)
    except InvalidTemplate as caught:
        refusal = caught
    else:
        assert template.is_literal
        return
    assert text.startswith("{{", refusal.offset)


@given(st.text(), st.text(), st.text())
def test_values_are_never_read_as_templates(path: str, name: str, namespace: str) -> None:
    context = TemplateContext(path, name, namespace)
    rendered = render("{{ .Model.Path }} {{ .Service.Name }} {{ .Service.Namespace }}", context)
    assert rendered == f"{path} {name} {namespace}"


def test_a_template_with_a_field_is_not_literal() -> None:
    assert not Template.parse("{{ .Model.Path }}").is_literal
