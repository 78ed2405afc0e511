#include "text/sentencepiece/protocol_buffer.h"

#include <bit>
#include <cstring>

#include "core/error.h"

static_assert(std::endian::native == std::endian::little);

namespace talon {

bool ProtoReader::next() {
  if (rest_.empty()) return false;
  const std::uint64_t tag = take_varint();
  const std::uint64_t field = tag >> 3;
  if (field == 0 || field > 0x1FFFFFFF)
    fail("{}: expected a field number, found {}", doing_, field);
  field_ = static_cast<int>(field);
  wire_ = static_cast<Wire>(tag & 7);
  std::uint64_t size = 0;
  switch (wire_) {
    case Wire::number:
      number_ = take_varint();
      return true;
    case Wire::fixed64:
      size = 8;
      break;
    case Wire::fixed32:
      size = 4;
      break;
    case Wire::bytes:
      size = take_varint();
      break;
    default:
      fail("{}: field {}: expected a wire type that is known, found {}", doing_, field_, tag & 7);
  }
  if (size > rest_.size()) {
    fail("{}: field {}: expected {} bytes, found {}", doing_, field_, size, rest_.size());
  }
  bytes_ = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return true;
}

std::uint64_t ProtoReader::take_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) fail("{}: expected a number, found the end of the data", doing_);
    const auto byte = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail("{}: expected a number of at most 10 bytes, found a longer one", doing_);
}

void ProtoReader::require(Wire wire, std::string_view name) const {
  if (wire_ != wire) {
    fail("{}: {}: expected wire type {}, found {}", doing_, name, static_cast<int>(wire),
         static_cast<int>(wire_));
  }
}

std::uint64_t ProtoReader::number(std::string_view name) const {
  require(Wire::number, name);
  return number_;
}

float ProtoReader::float32(std::string_view name) const {
  require(Wire::fixed32, name);
  float value = 0.0F;
  std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

std::string_view ProtoReader::bytes(std::string_view name) const {
  require(Wire::bytes, name);
  return bytes_;
}

void ProtoWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) message_.push_back(static_cast<char>(value | 0x80));
  message_.push_back(static_cast<char>(value));
}

void ProtoWriter::tag(int field, ProtoReader::Wire wire) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

void ProtoWriter::number(int field, std::uint64_t value) {
  tag(field, ProtoReader::Wire::number);
  varint(value);
}

void ProtoWriter::float32(int field, float value) {
  tag(field, ProtoReader::Wire::fixed32);
  message_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void ProtoWriter::bytes(int field, std::string_view value) {
  tag(field, ProtoReader::Wire::bytes);
  varint(value.size());
  message_.append(value);
}

}  // namespace talon
