// Writes the small JSON documents that the command line prints (summaries, checks). Files go
// through Protobuf's JSON mapping instead; this exists so that printing a few facts needs no
// schema.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>

namespace heterplan {

/// Streams one JSON value, indented by two. `attribute*` belong in an object, `value` and the plain
/// `object` and `array` at the top or in an array. Keys keep the order of the calls.
class JsonWriter {
public:
  explicit JsonWriter(llvm::raw_ostream &stream) : os(stream) {}

  void object(llvm::function_ref<void()> body) { element('{', '}', body); }
  void array(llvm::function_ref<void()> body) { element('[', ']', body); }
  void attributeObject(llvm::StringRef key, llvm::function_ref<void()> body);
  void attributeArray(llvm::StringRef key, llvm::function_ref<void()> body);

  template <typename T> void value(T scalar) {
    separate();
    write(scalar);
  }
  template <typename T> void attribute(llvm::StringRef key, T scalar) {
    begin(key);
    write(scalar);
  }

private:
  void write(llvm::StringRef text);
  void write(const char *text) { write(llvm::StringRef(text)); }
  void write(const std::string &text) { write(llvm::StringRef(text)); }
  void write(bool flag) { os << (flag ? "true" : "false"); }
  /// Shortest text that reads back as `number`; null where JSON has none (infinite, NaN).
  void write(double number);
  void write(int64_t number) { os << number; }
  void write(int number) { os << number; }
  void write(size_t number) { os << number; }

  void begin(llvm::StringRef key);
  void element(char open, char close, llvm::function_ref<void()> body);
  void block(char open, char close, llvm::function_ref<void()> body);
  void separate();

  llvm::raw_ostream &os;
  unsigned depth = 0;
  bool first = true;
};

/// `text` between quotes, escaped; what is not UTF-8 becomes U+FFFD.
void writeJsonString(llvm::raw_ostream &os, llvm::StringRef text);

} // namespace heterplan
