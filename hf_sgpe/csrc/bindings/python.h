// Helpers of the bindings: views of Python objects, whose construction needs the GIL, and conversion of results.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "special_tokens.h"
#include "text.h"
#include "vocabulary.h"

namespace hf_sgpe {

namespace nb = nanobind;

using Texts = nb::typed<nb::iterable, nb::str>;
using ByteStrings = nb::typed<nb::iterable, nb::bytes>;
using Numbers = nb::typed<nb::iterable, int>;

using Bytes = std::span<const uint8_t>;
using Array8 = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;
using Array32 = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>;
using Array64 = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

void bind_text(nb::module_& m);
void bind_scanner(nb::module_& m);
void bind_counter(nb::module_& m);
void bind_trainer(nb::module_& m);
void bind_encoder(nb::module_& m);
void bind_decoder(nb::module_& m);
void bind_syllables(nb::module_& m);
void bind_vocabulary(nb::module_& m);

// For texts with fewer characters, releasing the GIL costs more than it saves.
constexpr size_t kWorthReleasing = 4096;

// Takes over a new reference. Null raises Python's current error.
inline nb::object steal(PyObject* object) {
  if (!object) throw nb::python_error();
  return nb::steal(object);
}

// ---------------------------------------------------------------- from Python

// The items of any iterable, which it owns, so that no other code can free them.
class Sequence {
 public:
  explicit Sequence(nb::handle iterable) : items_(steal(PySequence_Tuple(iterable.ptr()))) {}
  size_t size() const { return static_cast<size_t>(NB_TUPLE_GET_SIZE(items_.ptr())); }
  PyObject* operator[](size_t i) const { return NB_TUPLE_GET_ITEM(items_.ptr(), static_cast<Py_ssize_t>(i)); }

 private:
  nb::object items_;
};

inline std::string type_name(PyObject* object) { return nb::type_name(nb::handle(object).type()).c_str(); }

// The characters of a str, which can be read without the GIL as long as this object and the str exist. They are not copied,
// except with Python's stable ABI, which gives access only to an ASCII str: other characters are copied in four bytes each.
class Characters {
 public:
  explicit Characters(PyObject* text) : text_(view(text)) {}
  const Text& text() const { return text_; }

 private:
  Text view(PyObject* text) {
    if (!PyUnicode_Check(text)) throw std::invalid_argument("expected str, not " + type_name(text));
#ifndef Py_LIMITED_API
#if PY_VERSION_HEX < 0x030C0000
    if (PyUnicode_READY(text) < 0) throw nb::python_error();
#endif
    const auto length = static_cast<size_t>(PyUnicode_GET_LENGTH(text));
    return Text(PyUnicode_DATA(text), length, static_cast<int>(PyUnicode_KIND(text)), PyUnicode_IS_ASCII(text));
#else
    static PyObject* const is_ascii = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyUnicode_Type), "isascii");
    Py_ssize_t length = PyUnicode_GetLength(text);
    if (steal(PyObject_Vectorcall(is_ascii, &text, 1, nullptr)).is(Py_True))
      return Text(PyUnicode_AsUTF8AndSize(text, &length), static_cast<size_t>(length), 1, true);
    copy_.reset(new uint32_t[static_cast<size_t>(length)]);
    if (!PyUnicode_AsUCS4(text, copy_.get(), length, 0)) throw nb::python_error();
    return Text(copy_.get(), static_cast<size_t>(length), 4, false);
#endif
  }

  std::unique_ptr<uint32_t[]> copy_;  // before `text_`, which refers to it
  Text text_;
};

// The texts of an iterable, which it owns.
class TextSequence {
 public:
  explicit TextSequence(nb::handle iterable) : items_(iterable) {
    characters_.reserve(items_.size());
    views_.reserve(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) views_.push_back(characters_.emplace_back(items_[i]).text());
  }
  const std::vector<Text>& texts() const { return views_; }

 private:
  Sequence items_;
  std::vector<Characters> characters_;
  std::vector<Text> views_;
};

// A view of a bytes object, which can be read without the GIL as long as the object exists.
inline Bytes bytes_of(PyObject* bytes) {
  if (!PyBytes_Check(bytes)) throw std::invalid_argument("expected bytes, not " + type_name(bytes));
  return {reinterpret_cast<const uint8_t*>(PyBytes_AsString(bytes)), static_cast<size_t>(PyBytes_Size(bytes))};
}

// Raises Python's error for a word that is not UTF-8.
inline void check_word(Bytes word) {
  if (std::any_of(word.begin(), word.end(), [](uint8_t byte) { return byte >= 0x80; }))
    steal(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(word.data()), static_cast<Py_ssize_t>(word.size()), "strict"));
}

// The arrays of hf_sgpe.counts.word_arrays.Words, without a copy: the joined words, and the start of each word and the end of the
// last.
class WordArrays {
 public:
  static bool in(nb::handle words) { return nb::hasattr(words, "arrays"); }
  explicit WordArrays(nb::handle words) {
    std::tie(bytes_, starts_) = nb::cast<std::tuple<Blob, Starts>>(words.attr("arrays")(), /*convert=*/false);
    const int64_t* const starts = starts_.data();
    if (starts_.size() == 0 || starts[0] < 0 || !std::is_sorted(starts, starts + starts_.size()) ||
        static_cast<size_t>(starts[size()]) > bytes_.size())
      throw std::invalid_argument("words must begin one after another");
  }
  size_t size() const { return starts_.size() - 1; }
  size_t bytes() const { return static_cast<size_t>(starts_.data()[size()] - starts_.data()[0]); }
  Bytes operator[](size_t i) const {
    const int64_t* const start = starts_.data() + i;
    return {bytes_.data() + start[0], static_cast<size_t>(start[1] - start[0])};
  }

 private:
  using Blob = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Starts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  Blob bytes_;
  Starts starts_;
};

// Words, or any iterable of bytes, whose items it owns.
class WordSequence {
 public:
  explicit WordSequence(nb::handle words) {
    if (WordArrays::in(words))
      arrays_.emplace(words);
    else
      items_.emplace(words);
    for (size_t i = 0; items_ && i < items_->size(); ++i) bytes_ += bytes_of((*items_)[i]).size();
  }
  size_t size() const { return arrays_ ? arrays_->size() : items_->size(); }
  size_t bytes() const { return arrays_ ? arrays_->bytes() : bytes_; }
  Bytes operator[](size_t i) const { return arrays_ ? (*arrays_)[i] : bytes_of((*items_)[i]); }

 private:
  std::optional<WordArrays> arrays_;
  std::optional<Sequence> items_;
  size_t bytes_ = 0;
};

inline std::string string_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// Pairs of a text and an id, as SpecialTokens takes them.
inline SpecialTokens tokens_of(const std::vector<std::pair<nb::bytes, int32_t>>& tokens) {
  std::vector<std::pair<std::string, int32_t>> pairs;
  for (const auto& [token, id] : tokens) pairs.emplace_back(string_of(token), id);
  return SpecialTokens(std::move(pairs));
}
inline SpecialTokens tokens_of(const std::vector<nb::bytes>& tokens) {
  std::vector<std::pair<std::string, int32_t>> pairs;
  for (const nb::bytes& token : tokens) pairs.emplace_back(string_of(token), -1);
  return SpecialTokens(std::move(pairs));
}

// A vocabulary that does not change, with the order of its ids.
class PyVocabulary {
 public:
  explicit PyVocabulary(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)), by_id_(vocabulary_.places_by_id()) {}
  const Vocabulary& vocabulary() const { return vocabulary_; }
  const std::vector<int32_t>& by_id() const { return by_id_; }

 private:
  Vocabulary vocabulary_;
  std::vector<int32_t> by_id_;  // places
};

inline int64_t number_of(PyObject* number) {
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

// The numbers of an iterable. An array is not copied.
class NumberSequence {
 public:
  explicit NumberSequence(nb::handle iterable) {
    if (nb::try_cast(iterable, array_, /*convert=*/false)) return;
    const Sequence items(iterable);
    owned_.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) owned_.push_back(number_of(items[i]));
  }
  std::span<const int64_t> numbers() const {
    return array_.is_valid() ? std::span(array_.data(), array_.size()) : std::span(owned_.data(), owned_.size());
  }

 private:
  nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> array_;
  std::vector<int64_t> owned_;
};

inline void check_lengths(size_t words, size_t counts) {
  if (words != counts)
    throw std::invalid_argument("there are " + std::to_string(words) + " words and " + std::to_string(counts) + " counts");
}

// ---------------------------------------------------------------- to Python

// Moves the values into a NumPy array, without a copy.
template <class Array, class Values>
Array to_array(Values&& values) {
  auto* owned = new Values(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Values*>(p); });
  return Array(const_cast<typename Array::Scalar*>(owned->data()), {owned->size()}, owner);
}

inline nb::object utf8_to_str(const uint8_t* data, size_t size) {
  return steal(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(data), static_cast<Py_ssize_t>(size), "replace"));
}

// The str of characters, which may include lone surrogates.
template <class Character>
nb::object characters_to_str(const Character* characters, size_t n) {
#ifndef Py_LIMITED_API
  return steal(PyUnicode_FromKindAndData(sizeof(Character), characters, static_cast<Py_ssize_t>(n)));
#else
  std::vector<uint8_t> utf8(4 * n);
  uint8_t* end = utf8.data();
  for (size_t i = 0; i < n; ++i) end = encode(characters[i], end);
  const auto* const start = reinterpret_cast<const char*>(utf8.data());
  return steal(PyUnicode_DecodeUTF8(start, reinterpret_cast<const char*>(end) - start, "surrogatepass"));
#endif
}

}  // namespace hf_sgpe
