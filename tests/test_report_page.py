"""The page in a real browser: links lead somewhere, nothing overflows, nothing is complained of."""

from __future__ import annotations

import pytest
from browser import Browser
from builders import compiled
from review_edits import renamed
from test_edits import LEGAL

from jfagen.report import page

LONG = "a_role_or_buffer_with_a_name_of_forty_lett"
#: Pages that are looked at: name -> schedule and edits.
CASES = {
    **{name: (name,) for name in ("fwd", "bwd", "hopper/fwd", "hopper/bwd", "ladder/01_simple")},
    "long names": (
        "fwd",
        *renamed("fwd", "correction", LONG),
        ("smem kv     :", f"smem {LONG}_2 :"),
    ),
    "one group": ("fwd", *LEGAL["one_group"]),
}
#: Text that is wider than the element around it, where that element does not scroll or clip.
OVERFLOWING = """
[...document.querySelectorAll("body *")].filter((e) => {
  if (e.closest("svg, .scroll, .text, .skip, script")) return false;
  return e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0
    && getComputedStyle(e).display !== "inline";
}).map((e) => e.outerHTML.slice(0, 120))
"""
#: Labels of the pictures that stick out of their rectangle, and shapes that leave their picture.
STICKING_OUT = """
[...document.querySelectorAll("svg")].flatMap((svg) => {
  const box = svg.getBoundingClientRect();
  const out = (r) => r.left < box.left - 1 || r.right > box.right + 1
    || r.top < box.top - 1 || r.bottom > box.bottom + 1;
  const leaving = [...svg.querySelectorAll("rect, text")]
    .filter((e) => out(e.getBoundingClientRect()));
  const wide = [...svg.querySelectorAll("a")].filter((a) => {
    const label = a.querySelector("text"), rect = a.querySelector("rect");
    if (!label) return false;
    const words = label.getBoundingClientRect(), place = rect.getBoundingClientRect();
    return words.width > place.width + 1 || words.height > place.height + 1;
  });
  return [...leaving, ...wide].map((e) => e.outerHTML.slice(0, 160));
})
"""
DEAD_LINKS = """
[...document.querySelectorAll("a[href]")].map((a) => a.getAttribute("href"))
  .filter((href) => !href.startsWith("#") || !document.getElementById(href.slice(1)))
"""


@pytest.fixture(scope="module")
def browser():
    with Browser(1440, 1000) as opened:
        yield opened


@pytest.fixture(scope="module", params=CASES)
def shown(request, browser, tmp_path_factory):
    """The browser with the page of one schedule, light, at the top, nothing complained of yet."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    text = page(compiled(*CASES[request.param]))
    for name in ("page", "again"):
        file.with_name(f"{name}.html").write_text(text)
    browser.file = file
    browser.media(prefers_color_scheme="light")
    browser.viewport(1440, 1000)
    browser.complaints.clear()
    browser.open(file)
    yield browser
    browser.js("0")
    assert browser.complaints == []


def test_a_browser_that_is_asked_for_an_error_hears_it(browser, tmp_path):
    """What the other tests rely on: the console is heard, and a bad link is found."""
    file = tmp_path / "bad.html"
    file.write_text("<a href='#nowhere'>x</a><script>console.error('broken'); missing()</script>")
    browser.open(file)
    assert browser.js(DEAD_LINKS) == ["#nowhere"]
    assert any("broken" in said for said in browser.complaints)
    assert any("missing is not defined" in said for said in browser.complaints)


def test_every_link_leads_somewhere(shown):
    assert shown.js(DEAD_LINKS) == []
    assert shown.js("document.querySelectorAll('a[href]').length") > 100


@pytest.mark.parametrize("width", [1920, 1440, 1024, 640, 375])
def test_nothing_overflows(shown, width):
    shown.viewport(width, 900)
    assert shown.js("document.documentElement.scrollWidth") <= width
    assert shown.js(OVERFLOWING) == []
    assert shown.js(STICKING_OUT) == []


def test_nothing_overflows_on_paper(shown):
    shown.media("print")
    shown.viewport(1050, 740)  # A4, landscape
    assert shown.js("document.documentElement.scrollWidth") <= 1050
    assert shown.js(OVERFLOWING) == []
    closed = "[...document.querySelectorAll('details ul')].filter((e) => !e.offsetHeight).length"
    assert shown.js(closed) == 0, "certificates are printed, unfolded or not"
    heights = "[...document.querySelectorAll('.text')].map((e) => e.scrollHeight - e.clientHeight)"
    assert max(shown.js(heights)) <= 1, "all of both texts is printed"
    assert shown.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown.media(prefers_color_scheme="light")


def test_dark_and_light_follow_the_system_and_the_button(shown):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, picture = shown.js(ground), shown.screenshot()
    shown.media(prefers_color_scheme="dark")
    dark = shown.js(ground)
    assert dark != light and shown.screenshot() != picture
    shown.click("#theme")  # light, whatever the system says
    assert shown.js(ground) == light
    shown.click("#theme")  # dark
    shown.media(prefers_color_scheme="light")
    assert shown.js(ground) == dark
    shown.click("#theme")  # as the system again
    assert shown.js(ground) == light


#: Contrast by WCAG 2 of every text against the nearest ground behind it; the worst ratios.
CONTRAST = """
(() => {
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const lum = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const ground = (e) => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$|transparent/.test(c)) return c; } return "rgb(255,255,255)"; };
  const says = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll("p, th, td, a, code, span, button, li, h1, h2, summary")]
    .filter((e) => !e.closest("svg") && says(e))
    .map((e) => { const a = lum(getComputedStyle(e).color), b = lum(ground(e));
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 80)]; })
    .filter(([ratio]) => ratio < 4.5);
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(shown, scheme):
    shown.media(prefers_color_scheme=scheme)
    assert shown.js(CONTRAST) == []
    shown.media(prefers_color_scheme="light")


def test_lines_are_linked_both_ways_by_mouse(shown):
    shown.click("#schedule .to a")
    shown.until("location.hash.startsWith('#k') && !!document.querySelector('.lit')")
    target = shown.js("location.hash")
    source = shown.js(f"document.querySelector('{target}').dataset.s")
    assert shown.js("document.querySelector('#schedule .to a').closest('li').id") == f"s{source}"
    seen = (
        f"(r => r.top >= 0 && r.bottom <= innerHeight)"
        f"(document.querySelector('{target}').getBoundingClientRect())"
    )
    assert shown.js(seen)
    lit = "[...document.querySelectorAll('.lit')].map((e) => e.id)"
    assert f"s{source}" in shown.js(lit) and target[1:] in shown.js(lit)
    shown.click(f"{target} a.from")
    shown.until(f"location.hash === '#s{source}'")


def test_an_op_of_the_picture_leads_to_its_line_and_shows_its_barriers(shown):
    shown.js("location.hash = ''")
    shown.js("document.querySelector('#roles a[id]').focus()")
    name = shown.js("document.activeElement.id")
    ends = f"path[data-first='{name}'], path[data-second='{name}']"
    mine = f'[...document.querySelectorAll("{ends}")]'
    assert shown.js(f"{mine}.length") > 0
    assert shown.js(f"{mine}.every((path) => path.classList.contains('on'))")
    shown.press("Enter")
    shown.until("location.hash.startsWith('#s')")
    line = shown.js("location.hash.slice(1)")
    assert shown.js(f"document.querySelector('#schedule #{line}') !== null")


def test_the_keyboard_alone_reaches_everything(shown):
    shown.open(shown.file.with_name("again.html"))
    shown.press("Tab")
    assert shown.js("document.activeElement.className") == "skip"
    shown.press("Enter")
    shown.until("location.hash === '#texts'")
    every = "[...document.querySelectorAll('a[href], button, summary, [tabindex]')]"
    unreachable = f"{every}.filter((e) => e.tabIndex < 0).length"
    assert shown.js(unreachable) == 0
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    shown.press("Tab")
    assert shown.js(outline) != "none", "where the focus is can be seen"


@pytest.mark.parametrize("pointed", ["#theme", "#schedule li"])
def test_n_and_p_walk_through_the_places_of_a_line(shown, pointed):
    """Wherever the mouse is: a line that comes under it is not the one that was chosen."""
    shown.js("location.hash = ''")
    has_many = "(line) => line.querySelectorAll('.to a').length > 2"
    many = f"[...document.querySelectorAll('#schedule li')].find({has_many})"
    shown.js(f"{many}.querySelector('.to a').focus()")
    walked = [shown.js("location.hash")]
    for key in ("Enter", *"nnp"):
        shown.press(key)
        shown.until(f"location.hash !== '{walked[-1]}'")
        walked.append(shown.js("location.hash"))
        shown.point(pointed)
    del walked[0]
    sources = {shown.js(f"document.querySelector('{hash}').dataset.s") for hash in walked}
    assert len(set(walked)) == 3 and walked[3] == walked[1] and len(sources) == 1


def test_nothing_is_asked_of_a_network(shown):
    assert shown.js("performance.getEntriesByType('resource').map((e) => e.name)") == []
