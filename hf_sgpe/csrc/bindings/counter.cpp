// WordCounter: word counts of texts.

#include "counter.h"

#include "python.h"

namespace hf_sgpe {
namespace {

class PyCounter {
 public:
  PyCounter(const Scanner& scanner, bool nfc, const std::vector<nb::bytes>& special_tokens, size_t longest_word)
      : counter_(scanner, nfc, tokens_of(special_tokens), longest_word) {}

  // Counts the words of texts. Returns the indices of texts that are left out.
  std::vector<size_t> add(Texts texts) {
    const TextSequence items(texts);
    const std::vector<Text>& views = items.texts();
    std::vector<size_t> left_out;
    const Use use(*this);
    nb::gil_scoped_release release;
    for (size_t i = 0; i < views.size(); ++i)
      if (!counter_.add(views[i])) left_out.push_back(i);
    counter_.trim();
    return left_out;
  }

  // Counts the words of texts without checks.
  void add_prepared(Texts texts) {
    const TextSequence items(texts);
    const std::vector<Text>& views = items.texts();
    const Use use(*this);
    nb::gil_scoped_release release;
    for (const Text& text : views) counter_.add_prepared(text);
  }

  void merge(PyCounter& other) {
    const Use use(*this), use_other(other);
    counter_.words.add(other.counter_.words);
  }

  // Word → count, in the order of the words.
  nb::typed<nb::dict, nb::bytes, int> counts() {
    const Use use(*this);
    nb::dict result;
    counter_.words.sorted([&](const uint8_t* word, size_t size, int64_t count) {
      const nb::bytes key(reinterpret_cast<const char*>(word), size);
      const nb::object value = steal(PyLong_FromLongLong(count));
      if (PyDict_SetItem(result.ptr(), key.ptr(), value.ptr()) < 0) throw nb::python_error();
    });
    return result;
  }

  // Words, ends, counts and bucket ends: WordCounter::Columns.
  std::tuple<Array8, Array64, Array64, Array64> part(uint32_t first, uint32_t last) {
    const Use use(*this, /*alone=*/false);
    WordCounter::Columns columns;
    {
      nb::gil_scoped_release release;
      columns = counter_.words.columns(first, last);
    }
    return {to_array<Array8>(std::move(columns.words)), to_array<Array64>(std::move(columns.ends)),
            to_array<Array64>(std::move(columns.counts)), to_array<Array64>(std::move(columns.bucket_ends))};
  }

  size_t size() const { return counter_.words.size(); }
  bool has_cut() const { return counter_.words.has_cut(); }
  size_t peak(size_t size) const { return counter_.words.peak(size); }
  void clear() {
    const Use use(*this);
    counter_.words.clear();
  }

 private:
  // Locks the counter for one writer or several readers. Locking and unlocking hold the GIL, so a plain number is enough.
  class Use {
   public:
    explicit Use(PyCounter& counter, bool alone = true) : counter_(counter), change_(alone ? -1 : 1) {
      if (alone ? counter.users_ != 0 : counter.users_ < 0)
        throw std::runtime_error("a word counter is at work already: use one in each thread");
      counter.users_ += change_;
    }
    ~Use() { counter_.users_ -= change_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    PyCounter& counter_;
    int change_;
  };

  int users_ = 0;  // the number of readers, or -1 for one writer
  TextCounter counter_;
};

}  // namespace

void bind_counter(nb::module_& m) {
  nb::class_<PyCounter>(m, "WordCounter")
      .def(nb::init<const Scanner&, bool, const std::vector<nb::bytes>&, size_t>(), nb::arg("scanner"), nb::arg("nfc"),
           nb::arg("special_tokens"), nb::arg("longest_word"), nb::keep_alive<1, 2>())
      .def("add", &PyCounter::add, nb::arg("texts"))
      .def("add_prepared", &PyCounter::add_prepared, nb::arg("texts"))
      .def("merge", &PyCounter::merge, nb::arg("other"))
      .def("counts", &PyCounter::counts)
      .def("part", &PyCounter::part, nb::arg("first"), nb::arg("last"))
      .def("peak", &PyCounter::peak, nb::arg("size"))
      .def("clear", &PyCounter::clear)
      .def_prop_ro("has_cut", &PyCounter::has_cut)
      .def("__len__", &PyCounter::size);
}

}  // namespace hf_sgpe
