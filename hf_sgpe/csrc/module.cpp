// What Python sees of the kernels. Objects of Python are touched here only, with the GIL held; the work is done without it.
//
// A text that is not the common case (a special token in it, or NFC would change it) is answered by None or left out: the
// caller treats it the readable way.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <exception>
#include <numeric>
#include <thread>
#include <tuple>

#include "counter.h"
#include "encoder.h"
#include "syllables.h"
#include "trainer.h"

namespace nb = nanobind;
using namespace hf_sgpe;

namespace {

using Array8 = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;
using Array32 = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>;
using Array64 = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;
using Input32 = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Input64 = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The values become the array's, without a copy.
template <class Array, class Values>
Array to_array(Values&& values) {
  auto* kept = new Values(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Values*>(p); });
  return Array(const_cast<typename Array::Scalar*>(kept->data()), {kept->size()}, owner);
}

nb::object steal(PyObject* object) {
  if (!object) throw nb::python_error();
  return nb::steal(object);
}

nb::bytes to_bytes(const uint8_t* data, size_t size) { return nb::bytes(reinterpret_cast<const char*>(data), size); }

nb::object to_str(const uint8_t* data, size_t size) {
  return steal(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(data), static_cast<Py_ssize_t>(size), "replace"));
}

// Words are text. What is not UTF-8 raises Python's own error.
void check_utf8(const Bytes& word) {
  if (std::any_of(word.data, word.data + word.size, [](uint8_t byte) { return byte >= 0x80; }))
    steal(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(word.data), static_cast<Py_ssize_t>(word.size), "strict"));
}

// The items of any iterable, held so that nobody can take them away.
class Sequence {
 public:
  explicit Sequence(nb::handle object) : kept_(steal(PySequence_Tuple(object.ptr()))) {}
  size_t size() const { return static_cast<size_t>(PyTuple_GET_SIZE(kept_.ptr())); }
  PyObject* operator[](size_t i) const { return PyTuple_GET_ITEM(kept_.ptr(), static_cast<Py_ssize_t>(i)); }

 private:
  nb::object kept_;
};

// Views of texts, which may be read without the GIL as long as `texts` is there.
std::vector<Text> views(const Sequence& texts) {
  std::vector<Text> made;
  made.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) made.emplace_back(texts[i]);
  return made;
}

// Below this, giving the GIL away costs more than it brings.
constexpr size_t kWorthReleasing = 4096;

// Calls work(thread, i) for every i below n, on `threads` threads. The first exception of any of them is thrown.
template <class Work>
void in_parallel(size_t n, size_t threads, Work&& work) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  const auto loop = [&](size_t thread) {
    try {
      for (size_t i; !failed && (i = next.fetch_add(1)) < n;) work(thread, i);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (size_t thread = 1; thread < std::min(threads, n); ++thread) others.emplace_back(loop, thread);
  } catch (...) {
    // The system gives no more threads: those that there are do all the work.
  }
  loop(0);
  for (std::thread& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

// Whether one of some strings stands in a text.
class Finder {
 public:
  void add(nb::bytes text) {
    if (text.size() == 0) throw std::invalid_argument("an empty text stands everywhere");
    texts_.emplace(std::upper_bound(texts_.begin(), texts_.end(), text.c_str()), text.c_str(), text.size());
    const auto first = static_cast<uint8_t>(text.c_str()[0]);
    if (!first_[first]) ++firsts_, only_first_ = first;
    first_[first] = true;
  }

  bool in(const Utf8& text) const {
    const uint8_t* const end = text.data + text.size;
    for (const uint8_t* p = text.data; firsts_ && p < end; ++p) {
      if (firsts_ == 1) {
        p = static_cast<const uint8_t*>(std::memchr(p, only_first_, static_cast<size_t>(end - p)));
        if (!p) return false;
      } else if (!first_[*p]) {
        continue;
      }
      if (at(p, end)) return true;
    }
    return false;
  }

 private:
  // Narrows the sorted strings byte by byte down to those that the text at `p` begins with.
  bool at(const uint8_t* p, const uint8_t* end) const {
    auto low = texts_.begin(), high = texts_.end();
    for (size_t i = 0; low != high && p + i < end; ++i) {
      const auto byte = [i](const std::string& text) { return static_cast<uint8_t>(text[i]); };
      low = std::partition_point(low, high, [&](const std::string& text) { return byte(text) < p[i]; });
      high = std::partition_point(low, high, [&](const std::string& text) { return byte(text) == p[i]; });
      if (low != high && low->size() == i + 1) return true;
    }
    return false;
  }

  std::vector<std::string> texts_;
  bool first_[256] = {};
  int firsts_ = 0, only_first_ = 0;
};

// ---------------------------------------------------------------- splitting and counting

nb::object split(const Scanner& scanner, nb::str text) {
  const nb::object utf8 = steal(PyUnicode_AsUTF8String(text.ptr()));  // raises where a surrogate stands alone
  const Bytes bytes(utf8.ptr());
  nb::list words;
  scanner.words(bytes.data, bytes.size, [&](const uint8_t* word, size_t size) { words.append(to_str(word, size)); });
  return words;
}

class PyCounter {
 public:
  PyCounter(const Scanner& scanner, bool nfc, const std::vector<nb::bytes>& special_tokens, size_t longest_word)
      : scanner_(scanner), nfc_(nfc), counter_(longest_word) {
    for (const nb::bytes& token : special_tokens) finder_.add(token);
  }

  // Counts the words of texts; returns the indices of those that were left out.
  std::vector<size_t> add(nb::handle texts) {
    const Sequence kept(texts);
    const std::vector<Text> all = views(kept);
    std::vector<size_t> left_out;
    const Use use(*this);
    nb::gil_scoped_release release;
    for (size_t i = 0; i < all.size(); ++i) {
      const Utf8 utf8 = all[i].utf8(scratch_, nfc_);
      if (!utf8.plain || finder_.in(utf8))
        left_out.push_back(i);
      else
        counter_.add_text(utf8.data, utf8.size, scanner_);
    }
    scratch_.shrink(size_t{1} << 24);
    return left_out;
  }

  // Counts the words of texts as they are.
  void add_prepared(nb::handle texts) {
    const Sequence kept(texts);
    const std::vector<Text> all = views(kept);
    const Use use(*this);
    nb::gil_scoped_release release;
    for (const Text& text : all) {
      const Utf8 utf8 = text.utf8(scratch_, false);
      counter_.add_text(utf8.data, utf8.size, scanner_);
    }
  }

  void merge(PyCounter& other) {
    const Use use(*this), use_other(other);
    counter_.add(other.counter_);
  }

  // Word → count, in the order of the words.
  nb::dict counts() {
    const Use use(*this);
    nb::dict result;
    counter_.sorted([&](const uint8_t* word, size_t size, int64_t count) {
      const nb::object key = to_bytes(word, size), value = steal(PyLong_FromLongLong(count));
      if (PyDict_SetItem(result.ptr(), key.ptr(), value.ptr()) < 0) throw nb::python_error();
    });
    return result;
  }

  // The words of a range of buckets, one after another, where each ends, their counts, and at which of them each bucket ends;
  // in the order of a file of counts.
  nb::tuple part(uint32_t first, uint32_t last) {
    const Use use(*this, /*alone=*/false);
    std::vector<uint8_t> words;
    std::vector<int64_t> ends{0}, counts, bucket_ends(last - first);
    {
      nb::gil_scoped_release release;
      counter_.sorted(first, last, [&](const uint8_t* word, size_t size, int64_t count) {
        words.insert(words.end(), word, word + size);
        ends.push_back(static_cast<int64_t>(words.size()));
        counts.push_back(count);
        ++bucket_ends[bucket_of(word, size) - first];
      });
      std::partial_sum(bucket_ends.begin(), bucket_ends.end(), bucket_ends.begin());
    }
    return nb::make_tuple(to_array<Array8>(std::move(words)), to_array<Array64>(std::move(ends)),
                          to_array<Array64>(std::move(counts)), to_array<Array64>(std::move(bucket_ends)));
  }

  size_t size() const { return counter_.size(); }
  bool has_cut() const { return counter_.has_cut(); }
  size_t peak(size_t text) const { return counter_.peak(text); }
  void clear() {
    const Use use(*this);
    counter_.clear();
  }

 private:
  // Alone, or together with others that only read. Begins and ends with the GIL held, so a plain number will do.
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

  int users_ = 0;  // how many read; below 0 for one that writes
  const Scanner& scanner_;
  bool nfc_;
  Finder finder_;
  Scratch scratch_;
  WordCounter counter_;
};

// ---------------------------------------------------------------- training

// Sequences of ids of any length, one after another.
class Sequences {
 public:
  std::vector<Id> ids;
  std::vector<int64_t> ends;

  size_t size() const { return ends.size(); }
  std::pair<const Id*, size_t> at(size_t i) const {
    const auto start = static_cast<size_t>(i ? ends[i - 1] : 0);
    return {ids.data() + start, static_cast<size_t>(ends[i]) - start};
  }
};

TieBreak tie_break_of(const std::string& name) {
  if (name == "smallest-pair-id") return TieBreak::kSmallestPairId;
  if (name == "greatest-pair-id") return TieBreak::kGreatestPairId;
  if (name == "greatest-pair-bytes") return TieBreak::kGreatestPairBytes;
  throw std::invalid_argument("unknown tie rule " + name);
}

nb::object learn_merges(nb::handle words, nb::handle counts, nb::handle vocabulary,
                        const std::vector<std::pair<Id, Id>>& merged, int64_t num_merges, const std::string& tie_break,
                        int64_t min_frequency, nb::object on_merge) {
  std::vector<std::string> tokens;
  const Sequence token_list(vocabulary);
  for (size_t i = 0; i < token_list.size(); ++i) {
    const Bytes bytes(token_list[i]);
    tokens.emplace_back(reinterpret_cast<const char*>(bytes.data), bytes.size);
  }
  Trainer trainer(std::move(tokens), tie_break_of(tie_break));

  const Sequence count_list(counts);
  const auto count_of = [&](size_t i) {
    const long long count = PyLong_AsLongLong(count_list[i]);
    if (count == -1 && PyErr_Occurred()) throw nb::python_error();
    return static_cast<int64_t>(count);
  };
  const auto same_length = [&](size_t n) {
    if (count_list.size() != n) throw std::invalid_argument("there must be one count for each word");
  };
  Sequences* sequences = nullptr;
  if (nb::try_cast<Sequences*>(words, sequences) && sequences) {
    same_length(sequences->size());
    trainer.reserve(sequences->ids.size(), sequences->size());
    for (size_t i = 0; i < sequences->size(); ++i) {
      const auto [ids, n] = sequences->at(i);
      trainer.add_word(ids, n, count_of(i));
    }
  } else {
    const Sequence list(words);
    same_length(list.size());
    std::vector<Id> ids;
    for (size_t i = 0; i < list.size(); ++i) {
      if (PyBytes_Check(list[i])) {
        const Bytes bytes(list[i]);
        trainer.add_word(bytes.data, bytes.size, count_of(i));
        continue;
      }
      const Sequence word(list[i]);
      ids.clear();
      for (size_t j = 0; j < word.size(); ++j) {
        const long long id = PyLong_AsLongLong(word[j]);
        if (id == -1 && PyErr_Occurred()) throw nb::python_error();
        if (id < 0 || id > INT32_MAX) throw std::invalid_argument("a word has an id beyond the vocabulary");
        ids.push_back(static_cast<Id>(id));
      }
      trainer.add_word(ids.data(), ids.size(), count_of(i));
    }
  }

  std::vector<std::pair<Id, Id>> merges;
  {
    nb::gil_scoped_release release;
    size_t steps = 0;
    merges = trainer.learn(merged, static_cast<size_t>(std::max<int64_t>(num_merges, 0)), min_frequency,
                           [&](Id new_id, Id left, Id right, int64_t count) {
                             if (!on_merge.is_none()) {
                               nb::gil_scoped_acquire acquire;
                               on_merge(new_id, nb::make_tuple(left, right), count);
                             } else if (++steps % 256 == 0) {
                               nb::gil_scoped_acquire acquire;  // Ctrl-C
                               if (PyErr_CheckSignals()) throw nb::python_error();
                             }
                           });
  }
  nb::list result;
  for (const auto& [left, right] : merges) result.append(nb::make_tuple(left, right));
  return result;
}

// For each unit, the merges that make it one token: bpe/unit_tier.py.
nb::object build_unit_tier(nb::handle units) {
  MergeTable table;
  Merger merger;
  nb::list merges;
  std::vector<Id> ids;
  const Sequence list(units);
  for (size_t i = 0; i < list.size(); ++i) {
    const Bytes unit(list[i]);
    ids.assign(unit.data, unit.data + unit.size);
    size_t n = merger.merge(ids.data(), ids.size(), table);
    while (n > 1) {
      merges.append(nb::make_tuple(ids[0], ids[1]));
      table.add(ids[0], ids[1], 256 + table.size());
      n = merger.merge(ids.data(), n, table);
    }
  }
  return merges;
}

// ---------------------------------------------------------------- encoding and decoding

class PyEncoder {
 public:
  PyEncoder(nb::handle byte_ids, nb::handle merges, nb::handle wholes, nb::object scanner, nb::handle special_tokens,
            size_t memory_bytes)
      : encoder_(ids_of(byte_ids), memory_bytes), scanner_object_(scanner) {
    if (!scanner.is_none()) scanner_ = nb::cast<const Scanner*>(scanner);
    for (const nb::handle merge : merges) {
      const auto [left, right, result] = triple(merge);
      encoder_.add_merge(left, right, result);
    }
    for (const nb::handle item : wholes) {
      const nb::tuple pair = nb::cast<nb::tuple>(item);
      const Bytes word(pair[0].ptr());
      encoder_.add_whole(std::string(reinterpret_cast<const char*>(word.data), word.size), nb::cast<Id>(pair[1]));
    }
    encoder_.finish();
    for (const nb::handle token : special_tokens) finder_.add(nb::cast<nb::bytes>(token));
  }

  PyEncoder(const PyEncoder&) = delete;
  PyEncoder& operator=(const PyEncoder&) = delete;
  ~PyEncoder() {
    for (PyObject* id : id_objects_) Py_XDECREF(id);
  }

  nb::object encode(nb::str text, bool nfc, bool find_special) {
    Borrowed memory(*this, 1);
    const Text view(text.ptr());
    Ids& ids = memory[0].text_ids;
    ids.clear();
    bool common;
    if (view.length() < kWorthReleasing) {
      common = ids_of_text(view, nfc, find_special, memory[0], ids);
    } else {
      nb::gil_scoped_release release;
      common = ids_of_text(view, nfc, find_special, memory[0], ids);
    }
    return common ? to_list(ids.data(), ids.size()) : nb::none();
  }

  nb::object encode_to_numpy(nb::str text, bool nfc, bool find_special) {
    Borrowed memory(*this, 1);
    const Text view(text.ptr());
    Ids ids;
    bool common;
    {
      nb::gil_scoped_release release;
      common = ids_of_text(view, nfc, find_special, memory[0], ids);
    }
    return common ? nb::cast(to_array<Array32>(std::move(ids))) : nb::none();
  }

  // Lists of ids; None for the texts that are not the common case.
  nb::object encode_batch(nb::handle texts, bool nfc, bool find_special, size_t threads) {
    Batch batch = encode_all(texts, nfc, find_special, threads);
    nb::object result = steal(PyList_New(static_cast<Py_ssize_t>(batch.size)));
    Py_ssize_t i = 0;
    for (Part& part : batch.parts) {
      const Id* start = part.ids.data();
      for (const auto& [length, common] : part.texts) {
        PyList_SET_ITEM(result.ptr(), i++, (common ? to_list(start, length) : nb::none()).release().ptr());
        start += length;
      }
      part = {};
    }
    return result;
  }

  // All ids in one array, where those of each text end, and which texts are not the common case and have none.
  nb::tuple encode_batch_to_numpy(nb::handle texts, bool nfc, bool find_special, size_t threads) {
    Batch batch = encode_all(texts, nfc, find_special, threads);
    Ids ids;
    std::vector<int64_t> ends;
    std::vector<size_t> left_out;
    {
      nb::gil_scoped_release release;
      std::vector<size_t> starts;
      size_t total = 0;
      for (const Part& part : batch.parts) {
        starts.push_back(total);
        total += part.ids.size();
      }
      ends.reserve(batch.size);
      int64_t end = 0;
      for (const Part& part : batch.parts) {
        for (const auto& [length, common] : part.texts) {
          if (!common) left_out.push_back(ends.size());
          ends.push_back(end += static_cast<int64_t>(length));
        }
      }
      if (batch.parts.size() == 1) {
        ids = std::move(batch.parts[0].ids);
      } else {
        // New memory costs as much as copying into it, so that is shared out, too.
        Id* const out = ids.room(total);
        ids.grown(total);
        in_parallel(batch.parts.size(), threads, [&](size_t, size_t i) {
          const Ids& part = batch.parts[i].ids;
          if (part.size()) std::memcpy(out + starts[i], part.data(), part.size() * sizeof(Id));
          batch.parts[i] = {};
        });
      }
    }
    return nb::make_tuple(to_array<Array32>(std::move(ids)), to_array<Array64>(std::move(ends)), left_out);
  }

  // Ids of words that somebody else found.
  nb::object encode_words(nb::handle words) {
    Borrowed memory(*this, 1);
    const Sequence list(words);
    Ids& ids = memory[0].text_ids;
    ids.clear();
    for (size_t i = 0; i < list.size(); ++i) {
      const Utf8 word = Text(list[i]).utf8(memory[0].scratch, false);
      if (word.size) encoder_.word(word.data, word.size, memory[0], ids);
    }
    return to_list(ids.data(), ids.size());
  }

  // Ids of each word by itself, not remembered: what the trainer starts from.
  Sequences merge_words(nb::handle words) {
    const Sequence list(words);
    Memory memory;
    Sequences sequences;
    for (size_t i = 0; i < list.size(); ++i) {
      const Bytes word(list[i]);
      check_utf8(word);
      encoder_.merge(word.data, word.size, memory);
      sequences.ids.insert(sequences.ids.end(), memory.ids.begin(), memory.ids.end());
      sequences.ends.push_back(static_cast<int64_t>(sequences.ids.size()));
    }
    return sequences;
  }

  // Hits, misses, words remembered, bytes they take; of the threads that are not at work.
  nb::tuple memory_info() const {
    uint64_t hits = 0, misses = 0, words = 0, bytes = 0;
    for (const auto& memory : idle_) {
      hits += memory->hits;
      misses += memory->misses;
      words += memory->size();
      bytes += memory->bytes();
    }
    return nb::make_tuple(hits, misses, words, bytes);
  }

  void forget() { idle_.clear(); }

 private:
  struct ThreadMemory : Memory {
    Ids text_ids;
  };

  // Memories for some threads, given back at the end. Taken and given back with the GIL held, so a fork finds them whole.
  class Borrowed {
   public:
    Borrowed(PyEncoder& encoder, size_t n) : encoder_(encoder) {
      // Room for all that are out, so that giving them back cannot fail.
      encoder.idle_.reserve(encoder.idle_.size() + (encoder.taken_ += n));
      for (size_t i = 0; i < n; ++i) {
        if (encoder.idle_.empty()) {
          taken_.push_back(std::make_unique<ThreadMemory>());
        } else {
          taken_.push_back(std::move(encoder.idle_.back()));
          encoder.idle_.pop_back();
        }
      }
    }
    ~Borrowed() {
      for (auto& memory : taken_) {
        memory->scratch.shrink(size_t{1} << 24);
        if (memory->text_ids.capacity() > size_t{1} << 22) memory->text_ids = Ids();
        if (memory->ids.capacity() > size_t{1} << 20) memory->ids = {}, memory->merger = {};
        encoder_.idle_.push_back(std::move(memory));
      }
      encoder_.taken_ -= taken_.size();
    }
    ThreadMemory& operator[](size_t i) { return *taken_[i]; }

   private:
    PyEncoder& encoder_;
    std::vector<std::unique_ptr<ThreadMemory>> taken_;
  };

  // Neighbouring texts, the work of one thread at a time.
  struct Part {
    Ids ids;
    std::vector<std::pair<size_t, bool>> texts;  // number of ids, whether the text is the common case
  };
  struct Batch {
    std::vector<Part> parts;
    size_t size;
  };

  Batch encode_all(nb::handle texts, bool nfc, bool find_special, size_t threads) {
    const Sequence kept(texts);
    const std::vector<Text> all = views(kept);
    std::vector<size_t> starts;
    for (size_t i = 0, characters = 0; i < all.size(); ++i) {
      // One thread needs no parts.
      if (i == 0 || (threads > 1 && characters >= kPart)) starts.push_back(i), characters = 0;
      characters += all[i].length();
    }
    Batch batch{std::vector<Part>(starts.size()), all.size()};
    threads = std::clamp<size_t>(threads, 1, std::max<size_t>(starts.size(), 1));
    Borrowed memory(*this, threads);
    nb::gil_scoped_release release;
    in_parallel(starts.size(), threads, [&](size_t thread, size_t i) {
      Part& part = batch.parts[i];
      const size_t end = i + 1 < starts.size() ? starts[i + 1] : all.size();
      size_t characters = 0;
      for (size_t text = starts[i]; text < end; ++text) characters += all[text].length();
      part.ids.room(characters / 3);  // about as many as there will be
      for (size_t text = starts[i]; text < end; ++text) {
        const size_t before = part.ids.size();
        const bool common = ids_of_text(all[text], nfc, find_special, memory[thread], part.ids);
        part.texts.emplace_back(part.ids.size() - before, common);
      }
    });
    return batch;
  }

  static constexpr size_t kPart = size_t{1} << 18;  // characters

  static std::vector<Id> ids_of(nb::handle list) {
    std::vector<Id> ids;
    for (const nb::handle id : list) ids.push_back(nb::cast<Id>(id));
    return ids;
  }

  static std::tuple<Id, Id, Id> triple(nb::handle merge) {
    const nb::tuple parts = nb::cast<nb::tuple>(merge);
    return {nb::cast<Id>(parts[0]), nb::cast<Id>(parts[1]), nb::cast<Id>(parts[2])};
  }

  bool ids_of_text(const Text& text, bool nfc, bool find_special, ThreadMemory& memory, Ids& ids) const {
    if (!scanner_) throw std::logic_error("this encoder has no scanner");
    const Utf8 utf8 = text.utf8(memory.scratch, nfc);
    if (!utf8.plain || (find_special && finder_.in(utf8))) return false;
    encoder_.text(utf8.data, utf8.size, *scanner_, memory, ids);
    return true;
  }

  // The same int objects again and again: making one costs more than looking it up.
  nb::object to_list(const Id* ids, size_t n) {
    nb::object list = steal(PyList_New(static_cast<Py_ssize_t>(n)));
    for (size_t i = 0; i < n; ++i) {
      const auto id = static_cast<size_t>(ids[i]);
      if (id >= id_objects_.size()) id_objects_.resize(id + 1);
      PyObject*& object = id_objects_[id];
      if (!object) object = steal(PyLong_FromLong(ids[i])).release().ptr();
      Py_INCREF(object);
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), object);
    }
    return list;
  }

  Encoder encoder_;
  nb::object scanner_object_;
  const Scanner* scanner_ = nullptr;
  Finder finder_;
  std::vector<std::unique_ptr<ThreadMemory>> idle_;
  size_t taken_ = 0;
  std::vector<PyObject*> id_objects_;
};

class PyDecoder {
 public:
  // `tokens`: (id, bytes) in the order of ids.
  PyDecoder(nb::handle tokens, nb::handle special_ids, size_t most_ids) : decoder_(most_ids), special_(most_ids) {
    for (const nb::handle item : tokens) {
      const nb::tuple pair = nb::cast<nb::tuple>(item);
      const Bytes bytes(pair[1].ptr());
      decoder_.add(nb::cast<Id>(pair[0]), bytes.data, bytes.size);
    }
    for (const nb::handle id : special_ids) special_.at(nb::cast<size_t>(id)) = true;
  }

  // The bytes of ids in a list or an array; None if one is no id of a token.
  nb::object decode(nb::handle ids, bool skip_special_tokens) const {
    std::string bytes;
    bool known = true;
    Input32 narrow;
    Input64 wide;
    if (PyList_Check(ids.ptr()) || PyTuple_Check(ids.ptr())) {
      const Sequence list(ids);
      for (size_t i = 0; i < list.size() && known; ++i) {
        if (!PyLong_Check(list[i])) return nb::none();
        const long long id = PyLong_AsLongLong(list[i]);
        if (id == -1 && PyErr_Occurred()) PyErr_Clear();
        known = append(id, skip_special_tokens, bytes);
      }
    } else if (nb::try_cast<Input32>(ids, narrow, false)) {
      for (size_t i = 0; i < narrow.shape(0) && known; ++i) known = append(narrow.data()[i], skip_special_tokens, bytes);
    } else if (nb::try_cast<Input64>(ids, wide, false)) {
      for (size_t i = 0; i < wide.shape(0) && known; ++i) known = append(wide.data()[i], skip_special_tokens, bytes);
    } else {
      return nb::none();
    }
    return known ? nb::object(nb::bytes(bytes.data(), bytes.size())) : nb::none();
  }

 private:
  bool append(int64_t id, bool skip_special_tokens, std::string& bytes) const {
    if (!decoder_.knows(id)) return false;
    if (!skip_special_tokens || !special_[static_cast<size_t>(id)]) bytes += decoder_.bytes(id);
    return true;
  }

  Decoder decoder_;
  std::vector<bool> special_;
};

// ---------------------------------------------------------------- syllables

class PySyllables {
 public:
  explicit PySyllables(nb::handle scripts) : syllables_(tables(scripts)) {}
  PySyllables(const PySyllables&) = delete;
  PySyllables& operator=(const PySyllables&) = delete;
  ~PySyllables() {
    for (PyObject* unit : units_) Py_XDECREF(unit);
  }

  nb::object tokenize(nb::str text, bool leading_space) {
    const Text view(text.ptr());
    nb::list units;
    view.visit([&](const auto* characters) {
      syllables_.units(characters, view.length(), leading_space,
                       [&](size_t start, size_t end) { units.append(unit(characters + start, end - start)); });
    });
    return units;
  }

  // Where each unit ends, in characters.
  nb::object ends(nb::str text, bool leading_space) const {
    const Text view(text.ptr());
    std::vector<int64_t> ends;
    {
      nb::gil_scoped_release release;
      view.visit([&](const auto* characters) {
        syllables_.units(characters, view.length(), leading_space,
                         [&](size_t, size_t end) { ends.push_back(static_cast<int64_t>(end)); });
      });
    }
    return nb::cast(to_array<Array64>(std::move(ends)));
  }

  // Unit → how often it occurs in words with counts; words of no script are left out unless `every_word`.
  nb::dict count_units(nb::handle words, nb::handle counts, bool every_word) const {
    WordCounter counter;
    std::vector<uint8_t> utf8;
    each_word(words, counts, [&](const std::vector<uint32_t>& word, int64_t count) {
      if (!every_word && syllables_.script_of(word.data(), word.size()) < 0) return;
      syllables_.units(word.data(), word.size(), true, [&](size_t start, size_t end) {
        utf8.resize((end - start) * 4);
        uint8_t* out = utf8.data();
        for (size_t i = start; i < end; ++i) out = encode(word[i], out);
        counter.add(utf8.data(), static_cast<size_t>(out - utf8.data()), count);
      });
    });
    nb::dict result;
    counter.sorted([&](const uint8_t* unit, size_t size, int64_t count) { result[to_str(unit, size)] = nb::int_(count); });
    return result;
  }

  // How many running words begin in each script.
  std::vector<int64_t> count_scripts(nb::handle words, nb::handle counts) const {
    std::vector<int64_t> totals(syllables_.size());
    each_word(words, counts, [&](const std::vector<uint32_t>& word, int64_t count) {
      const int script = syllables_.script_of(word.data(), word.size());
      if (script >= 0) totals[static_cast<size_t>(script)] += count;
    });
    return totals;
  }

 private:
  template <class Function>
  static void each_word(nb::handle words, nb::handle counts, Function&& function) {
    const Sequence word_list(words), count_list(counts);
    if (word_list.size() != count_list.size()) throw std::invalid_argument("there must be one count for each word");
    std::vector<uint32_t> characters;
    for (size_t i = 0; i < word_list.size(); ++i) {
      const Bytes word(word_list[i]);
      const long long count = PyLong_AsLongLong(count_list[i]);
      if (count == -1 && PyErr_Occurred()) throw nb::python_error();
      check_utf8(word);
      characters.clear();
      for (const uint8_t* p = word.data; p < word.data + word.size;) characters.push_back(decode(p));
      function(characters, static_cast<int64_t>(count));
    }
  }

  static std::vector<Syllables::Script> tables(nb::handle scripts) {
    std::vector<Syllables::Script> made;
    for (const nb::handle item : scripts) {
      const nb::tuple parts = nb::cast<nb::tuple>(item);
      Syllables::Script script;
      script.classes = nb::cast<std::vector<Ranges>>(parts[0]);
      script.joiners = nb::cast<std::vector<uint32_t>>(parts[1]);
      for (const auto& row : nb::cast<std::vector<std::vector<int>>>(parts[2])) {
        Syllables::State state;
        if (row.size() != state.size()) throw std::invalid_argument("a state without an entry for each class");
        std::copy(row.begin(), row.end(), state.begin());
        script.grammar.push_back(state);
      }
      made.push_back(std::move(script));
    }
    return made;
  }

  // The str of a unit. Text has few kinds of unit, so the last ones are kept: finding one costs less than making it.
  template <class Character>
  nb::object unit(const Character* characters, size_t n) {
    const uint64_t hash = hash_bytes(reinterpret_cast<const uint8_t*>(characters), n * sizeof(Character), hash_seed());
    PyObject*& kept = units_[hash % kUnits];
    constexpr int kind = sizeof(Character);
    if (!kept || PyUnicode_GET_LENGTH(kept) != static_cast<Py_ssize_t>(n) || static_cast<int>(PyUnicode_KIND(kept)) != kind ||
        std::memcmp(PyUnicode_DATA(kept), characters, n * sizeof(Character)) != 0) {
      PyObject* const made = steal(PyUnicode_FromKindAndData(kind, characters, static_cast<Py_ssize_t>(n))).release().ptr();
      Py_XSETREF(kept, made);
    }
    return nb::borrow(kept);
  }

  static constexpr size_t kUnits = 1 << 13;
  Syllables syllables_;
  PyObject* units_[kUnits] = {};
};

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // scanners and tables are kept until the process ends
  m.doc() = "The kernels in C++: the same results as the readable ones, faster. Use them through hf_sgpe.kernel.";

  m.def("class_of", [](uint32_t point) { return point < kCodePoints ? class_table()[point] : 0; }, nb::arg("point"));
  m.attr("CANARIES") = [] {
    nb::list points;
    for (const uint32_t point : kCanaries) points.append(point);
    return nb::tuple(points);
  }();
  m.def("has_surrogates", [](nb::str text) { return Text(text.ptr()).has_surrogates(); }, nb::arg("text"));
  // Where NFC might change a text: (start, end) in characters of stretches that can be normalized one by one.
  m.def("nfc_spans", [](nb::str text) {
    const Text view(text.ptr());
    std::vector<std::pair<size_t, size_t>> spans;
    const auto find = [&] { view.nfc_spans([&](size_t start, size_t end) { spans.emplace_back(start, end); }); };
    if (view.length() < kWorthReleasing) {
      find();
    } else {
      nb::gil_scoped_release release;
      find();
    }
    return spans;
  }, nb::arg("text"));

  nb::class_<Scanner>(m, "Scanner")
      .def(nb::init<const std::string&, const std::vector<Ranges>&, const Ranges&>(), nb::arg("base"), nb::arg("scripts"),
           nb::arg("joiners"))
      .def("split", &split, nb::arg("text"));

  nb::class_<PyCounter>(m, "WordCounter")
      .def(nb::init<const Scanner&, bool, const std::vector<nb::bytes>&, size_t>(), nb::arg("scanner"), nb::arg("nfc"),
           nb::arg("special_tokens"), nb::arg("longest_word"), nb::keep_alive<1, 2>())
      .def("add", &PyCounter::add, nb::arg("texts"))
      .def("add_prepared", &PyCounter::add_prepared, nb::arg("texts"))
      .def("merge", &PyCounter::merge, nb::arg("other"))
      .def("counts", &PyCounter::counts)
      .def("part", &PyCounter::part, nb::arg("first"), nb::arg("last"))
      .def("peak", &PyCounter::peak, nb::arg("text"))
      .def("clear", &PyCounter::clear)
      .def_prop_ro("has_cut", &PyCounter::has_cut)
      .def("__len__", &PyCounter::size);

  nb::class_<Sequences>(m, "Sequences").def("__len__", &Sequences::size).def("__getitem__", [](const Sequences& all, size_t i) {
    if (i >= all.size()) throw nb::index_error();
    const auto [ids, n] = all.at(i);
    return std::vector<Id>(ids, ids + n);
  });

  m.def("learn_merges", &learn_merges, nb::arg("words"), nb::arg("counts"), nb::arg("vocabulary"), nb::arg("merged"),
        nb::arg("num_merges"), nb::arg("tie_break"), nb::arg("min_frequency"), nb::arg("on_merge").none());
  m.def("build_unit_tier", &build_unit_tier, nb::arg("units"));

  nb::class_<PyEncoder>(m, "Encoder")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::object, nb::handle, size_t>(), nb::arg("byte_ids"),
           nb::arg("merges"), nb::arg("wholes"), nb::arg("scanner").none(), nb::arg("special_tokens"), nb::arg("memory_bytes"))
      .def("encode", &PyEncoder::encode, nb::arg("text"), nb::arg("nfc"), nb::arg("find_special"))
      .def("encode_to_numpy", &PyEncoder::encode_to_numpy, nb::arg("text"), nb::arg("nfc"), nb::arg("find_special"))
      .def("encode_batch", &PyEncoder::encode_batch, nb::arg("texts"), nb::arg("nfc"), nb::arg("find_special"),
           nb::arg("threads"))
      .def("encode_batch_to_numpy", &PyEncoder::encode_batch_to_numpy, nb::arg("texts"), nb::arg("nfc"),
           nb::arg("find_special"), nb::arg("threads"))
      .def("encode_words", &PyEncoder::encode_words, nb::arg("words"))
      .def("merge_words", &PyEncoder::merge_words, nb::arg("words"))
      .def("memory_info", &PyEncoder::memory_info)
      .def("forget", &PyEncoder::forget);

  nb::class_<PyDecoder>(m, "Decoder")
      .def(nb::init<nb::handle, nb::handle, size_t>(), nb::arg("tokens"), nb::arg("special_ids"), nb::arg("most_ids"))
      .def("decode", &PyDecoder::decode, nb::arg("ids"), nb::arg("skip_special_tokens"));

  nb::class_<PySyllables>(m, "Syllables")
      .def(nb::init<nb::handle>(), nb::arg("scripts"))
      .def("tokenize", &PySyllables::tokenize, nb::arg("text"), nb::arg("leading_space"))
      .def("ends", &PySyllables::ends, nb::arg("text"), nb::arg("leading_space"))
      .def("count_units", &PySyllables::count_units, nb::arg("words"), nb::arg("counts"), nb::arg("every_word"))
      .def("count_scripts", &PySyllables::count_scripts, nb::arg("words"), nb::arg("counts"));
}
