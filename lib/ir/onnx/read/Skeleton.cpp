#include "ir/onnx/read/Skeleton.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <cstring>
#include <optional>

using namespace llvm;

namespace heterplan {

namespace {

constexpr size_t largestTable = size_t(16) << 20;
constexpr size_t mostTables = size_t(64) << 20; // bytes of them in all

/// Numbers of fields and types in onnx.proto.
enum Field : uint64_t {
  modelGraph = 7,
  graphInitializer = 5,
  tensorType = 2,
  tensorFloats = 4,
  tensorRaw = 9,
  tensorDoubles = 10,
  tensorExternal = 13,
  tensorLocation = 14,
};
enum Type : uint64_t {
  floats = 1,
  uint8s = 2,
  int8s = 3,
  float16s = 10,
  doubles = 11,
  bfloat16s = 16
};
enum Wire : uint64_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

/// One field of a message: `whole` with its tag, `value` the number or `body` the bytes.
struct Piece {
  uint64_t field = 0, wire = 0, value = 0;
  StringRef whole, body;
};

/// Nothing where the bytes are no number.
std::optional<uint64_t> takeVarint(StringRef &rest) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    auto byte = static_cast<unsigned char>(rest[0]);
    rest = rest.drop_front();
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return value;
  }
  return std::nullopt;
}

/// The next field of `rest`, or nothing where there is none that is whole.
std::optional<Piece> takePiece(StringRef &rest) {
  StringRef begin = rest;
  Piece piece;
  auto tag = takeVarint(rest);
  if (!tag)
    return std::nullopt;
  piece.field = *tag >> 3;
  piece.wire = *tag & 7;
  uint64_t size = piece.wire == fixed64 ? 8 : piece.wire == fixed32 ? 4 : 0;
  if (piece.wire == varint || piece.wire == delimited) {
    auto number = takeVarint(rest);
    if (!number)
      return std::nullopt;
    piece.value = *number;
    size = piece.wire == delimited ? *number : 0;
  } else if (!size) {
    return std::nullopt;
  }
  if (size > rest.size())
    return std::nullopt;
  piece.body = rest.take_front(size);
  rest = rest.drop_front(size);
  piece.whole = begin.drop_back(rest.size());
  return piece;
}

void putVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void putDelimited(std::string &out, uint64_t field, StringRef body) {
  putVarint(out, field << 3 | delimited);
  putVarint(out, body.size());
  out.append(body.data(), body.size());
}

void putEntry(std::string &out, StringRef key, StringRef value) {
  std::string entry;
  putDelimited(entry, 1, key);
  putDelimited(entry, 2, value);
  putDelimited(out, tensorExternal, entry);
}

template <typename Number> bool onlyMaskValues(StringRef bytes) {
  for (size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
    Number value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (value != 0 && value != 1 && !(value <= -1e4))
      return false;
  }
  return true;
}

class Stripper {
public:
  Stripper(StringRef file, StringRef name, size_t smallest)
      : file(file), name(name), smallest(smallest) {}

  std::string run() {
    std::string result;
    eachPiece(file, result, [&](const Piece &piece) {
      if (piece.field != modelGraph || piece.wire != delimited)
        return false;
      putDelimited(result, modelGraph, graph(piece.body));
      return true;
    });
    return result;
  }

private:
  StringRef file, name;
  size_t smallest;
  size_t tables = 0; // bytes that stay

  /// Copies to `out` the fields that `rewrite` does not take, and whatever follows the last whole
  /// one.
  template <typename Rewrite>
  static void eachPiece(StringRef message, std::string &out, Rewrite rewrite) {
    while (!message.empty()) {
      StringRef before = message;
      auto piece = takePiece(message);
      if (!piece) {
        out.append(before.data(), before.size());
        return;
      }
      if (!rewrite(*piece))
        out.append(piece->whole.data(), piece->whole.size());
    }
  }

  std::string graph(StringRef body) {
    std::string result;
    eachPiece(body, result, [&](const Piece &piece) {
      if (piece.field != graphInitializer || piece.wire != delimited ||
          piece.body.size() < smallest)
        return false;
      putDelimited(result, graphInitializer, tensor(piece.body));
      return true;
    });
    return result;
  }

  std::string tensor(StringRef body) {
    uint64_t type = 0;
    const StringRef values = weightOf(body, type);
    if (values.size() < smallest)
      return body.str();
    if (values.size() <= mostTables - tables && stays(values, type)) {
      tables += values.size();
      return body.str();
    }
    std::string result;
    eachPiece(body, result, [&](const Piece &piece) {
      return piece.body.data() == values.data() && piece.body.size() == values.size();
    });
    putVarint(result, uint64_t(tensorLocation) << 3 | varint);
    putVarint(result, 1); // EXTERNAL
    putEntry(result, "location", name);
    putEntry(result, "offset", std::to_string(values.data() - file.data()));
    putEntry(result, "length", std::to_string(values.size()));
    return result;
  }

  /// The values of the tensor, in the one field that has them; nothing where it is less simple.
  static StringRef weightOf(StringRef tensor, uint64_t &type) {
    StringRef values;
    uint64_t field = 0;
    int found = 0;
    while (!tensor.empty()) {
      auto piece = takePiece(tensor);
      if (!piece || piece->field == tensorExternal || piece->field == tensorLocation)
        return {};
      if (piece->field == tensorType && piece->wire == varint)
        type = piece->value;
      bool holds = piece->field == tensorFloats || piece->field == tensorRaw ||
                   piece->field == tensorDoubles;
      if (!holds)
        continue;
      if (piece->wire != delimited || ++found > 1)
        return {};
      values = piece->body;
      field = piece->field;
    }
    bool fits = field == tensorRaw || (field == tensorFloats && type == floats) ||
                (field == tensorDoubles && type == doubles);
    return fits ? values : StringRef();
  }

  /// Whether folding may want the values.
  static bool stays(StringRef values, uint64_t type) {
    if (values.size() > largestTable)
      return false;
    switch (type) {
    case floats:
      return onlyMaskValues<float>(values);
    case doubles:
      return onlyMaskValues<double>(values);
    case int8s:
    case uint8s:
      return onlyMaskValues<int8_t>(values);
    default:
      return type != float16s && type != bfloat16s;
    }
  }
};

} // namespace

std::string skeletonOf(StringRef file, StringRef name, size_t smallest) {
  return Stripper(file, name, smallest).run();
}

} // namespace heterplan
