// Scanner: splitting texts into words.

#include "scanner.h"

#include "python.h"

namespace hf_sgpe {
namespace {

nb::typed<nb::list, nb::str> split(const Scanner& scanner, nb::str text) {
  const nb::object utf8 = steal(PyUnicode_AsUTF8String(text.ptr()));  // raises for a lone surrogate
  const auto bytes = bytes_of(utf8.ptr());
  nb::list words;
  scanner.words(bytes.data(), bytes.size(), [&](const uint8_t* word, size_t size) { words.append(utf8_to_str(word, size)); });
  return words;
}

}  // namespace

void bind_scanner(nb::module_& m) {
  nb::class_<Scanner>(m, "Scanner")
      .def(nb::init<const std::string&, const std::vector<Ranges>&, const std::vector<Ranges>&,
                    const std::vector<std::pair<Ranges, size_t>>&>(),
           nb::arg("base"), nb::arg("scripts"), nb::arg("joiners"),
           nb::arg("steps") = std::vector<std::pair<Ranges, size_t>>())
      .def("split", &split, nb::arg("text"));
}

}  // namespace hf_sgpe
