// Returns the visible texts of a page whose contrast to what is behind them is below LEAST (WCAG 2.2).
((least) => {
  const HTML = "http://www.w3.org/1999/xhtml";
  const pixel = document.createElementNS(HTML, "canvas").getContext("2d", { willReadFrequently: true });

  function rgba(colour) {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = colour;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }

  const over = ([r, g, b, a], below) => [r, g, b].map((one, place) => one * a + below[place] * (1 - a));

  function light(colour) {
    const [r, g, b] = colour.map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function contrast(a, b) {
    const [dark, bright] = [light(a), light(b)].sort((x, y) => x - y);
    return (bright + 0.05) / (dark + 0.05);
  }

  function canvas() {
    const probe = document.createElementNS(HTML, "div");
    probe.style.background = "Canvas";
    document.documentElement.append(probe);
    const found = rgba(getComputedStyle(probe).backgroundColor);
    probe.remove();
    return found;
  }

  const paper = canvas();

  function* ancestors(element) {
    for (let one = element; one; one = one.parentElement) yield one;
  }

  // Backgrounds of the ancestors, and rectangles of the chart, at a place of the window.
  function behind(element, x, y) {
    const backgrounds = [...ancestors(element)].map((one) => rgba(getComputedStyle(one).backgroundColor));
    const fills = [...(element.closest("svg")?.querySelectorAll("rect") ?? [])].filter((one) => {
      const box = one.getBoundingClientRect();
      return box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
    }).map((one) => {
      const style = getComputedStyle(one);
      const [r, g, b, a] = rgba(style.fill);
      return [r, g, b, a * style.fillOpacity];
    });
    return [...backgrounds.reverse(), ...fills].reduce((below, layer) => over(layer, below), paper);
  }

  const faint = [];
  let seen = 0;
  const texts = document.createTreeWalker(document.body ?? document.documentElement, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) {
    const element = text.parentElement;
    if (!text.data.trim() || element.closest("title, style, script")) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    seen += 1;
    const below = behind(element, box.left + box.width / 2, box.top + box.height / 2);
    const style = getComputedStyle(element);
    const [r, g, b, a] = rgba(element.namespaceURI === HTML ? style.color : style.fill);
    const opacity = [...ancestors(element)].reduce((all, one) => all * getComputedStyle(one).opacity, a);
    const found = contrast(over([r, g, b, opacity], below), below);
    if (found < least) faint.push(`${text.data.trim().slice(0, 40)}: ${found.toFixed(2)}`);
  }
  return seen ? faint : ["there is no text"];
})(LEAST)
