// Scanner and Neighbours: splitting texts into words.

#include "scanner.h"

#include "neighbours.h"
#include "python.h"

namespace hf_sgpe {
namespace {

template <class Cutter>
nb::typed<nb::list, nb::str> split(const Cutter& cutter, nb::str text) {
  const nb::object utf8 = steal(PyUnicode_AsUTF8String(text.ptr()));  // raises for a lone surrogate
  const auto bytes = bytes_of(utf8.ptr());
  nb::list words;
  cutter.words(bytes.data(), bytes.size(), [&](const uint8_t* word, size_t size) { words.append(utf8_to_str(word, size)); });
  return words;
}

// The neighbours in the tokens of a vocabulary of characters: see hf_sgpe.vocabulary.neighbours.Neighbours.
void make_neighbours(Neighbours* neighbours, const PyVocabulary& tokens, bool cuts_at_spaces, bool keeps_unknown) {
  const Vocabulary& vocabulary = tokens.vocabulary();
  std::vector<uint32_t> points, known;
  const auto read = [&](size_t place) {
    const std::string_view token = vocabulary[static_cast<int32_t>(place)];
    if (!is_utf8(token)) throw std::invalid_argument("a token of characters is not UTF-8");
    const auto *p = reinterpret_cast<const uint8_t*>(token.data()), *const end = p + token.size();
    points.clear();
    while (p != end) points.push_back(decode(p));
  };
  for (size_t place = 0; keeps_unknown && place < vocabulary.size(); ++place)
    if (read(place); points.size() == 1) known.push_back(points[0]);
  if (keeps_unknown && cuts_at_spaces) known.push_back(' ');
  new (neighbours) Neighbours(known, keeps_unknown);
  for (size_t place = 0; place < vocabulary.size(); ++place) {
    read(place);
    for (size_t i = 1; i < points.size(); ++i)
      if (!cuts_at_spaces || points[i] != ' ') neighbours->add(points[i - 1], points[i]);
  }
}

}  // namespace

void bind_scanner(nb::module_& m) {
  nb::class_<Scanner>(m, "Scanner")
      .def(nb::init<const std::string&, const std::vector<Ranges>&, const std::vector<Ranges>&,
                    const std::vector<std::pair<Ranges, size_t>>&>(),
           nb::arg("base"), nb::arg("scripts"), nb::arg("joiners"),
           nb::arg("steps") = std::vector<std::pair<Ranges, size_t>>())
      .def("split", &split<Scanner>, nb::arg("text"));
  nb::class_<Neighbours>(m, "Neighbours")
      .def("__init__", &make_neighbours, nb::arg("vocabulary"), nb::arg("cuts_at_spaces"), nb::arg("keeps_unknown"))
      .def("split", &split<Neighbours>, nb::arg("text"));
}

}  // namespace hf_sgpe
