#include <cstdint>
#include <cstdlib>

#include "io/byte_reader.h"
#include "io/parse.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

// The first checkpoint format of https://github.com/karpathy/llama2.c (export.py, legacy_export):
// seven int32, then float32 tensors, each kind for all layers. A negative vocabulary size says that
// the output matrix is stored of its own.
namespace talon {
namespace {

struct Header {
  std::int64_t dim = 0;
  std::int64_t hidden_dim = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t vocabulary = 0;
  std::int64_t sequence = 0;
  bool shared_output = true;
};

Header read_header(ByteReader& reader) {
  Header header;
  const auto take_positive = [&](std::string_view field) -> std::int64_t {
    const auto value = reader.take<std::int32_t>(field);
    if (value <= 0) {
      fail("{}: field {}: expected a positive number, found {}", reader.doing(), field, value);
    }
    return value;
  };
  header.dim = take_positive("dim");
  header.hidden_dim = take_positive("hidden_dim");
  header.layers = take_positive("n_layers");
  header.heads = take_positive("n_heads");
  header.kv_heads = take_positive("n_kv_heads");
  const std::int64_t vocabulary = reader.take<std::int32_t>("vocab_size");
  if (vocabulary == 0) fail("{}: field vocab_size: expected another number than 0", reader.doing());
  header.vocabulary = std::abs(vocabulary);
  header.shared_output = vocabulary > 0;
  header.sequence = take_positive("seq_len");
  if (header.dim % header.heads != 0 || header.dim / header.heads % 2 != 0) {
    fail("{}: field dim: expected an even multiple of n_heads {}, found {}", reader.doing(),
         header.heads, header.dim);
  }
  if (header.heads % header.kv_heads != 0) {
    fail("{}: field n_kv_heads: expected a divisor of n_heads {}, found {}", reader.doing(),
         header.heads, header.kv_heads);
  }
  return header;
}

// One kind of tensor in the file: `count` tensors of the same shape. An empty name is skipped.
struct Part {
  std::string_view name;
  std::int64_t count;
  std::vector<std::int64_t> shape;
  bool per_layer;
};

std::vector<Part> parts_of(const Header& h) {
  const std::int64_t head_dim = h.dim / h.heads;
  const std::int64_t kv_dim = head_dim * h.kv_heads;
  std::vector<Part> parts = {
      {"token_embd.weight", 1, {h.vocabulary, h.dim}, false},
      {"attn_norm.weight", h.layers, {h.dim}, true},
      {"attn_q.weight", h.layers, {h.dim, h.dim}, true},
      {"attn_k.weight", h.layers, {kv_dim, h.dim}, true},
      {"attn_v.weight", h.layers, {kv_dim, h.dim}, true},
      {"attn_output.weight", h.layers, {h.dim, h.dim}, true},
      {"ffn_norm.weight", h.layers, {h.dim}, true},
      {"ffn_gate.weight", h.layers, {h.hidden_dim, h.dim}, true},
      {"ffn_down.weight", h.layers, {h.dim, h.hidden_dim}, true},
      {"ffn_up.weight", h.layers, {h.hidden_dim, h.dim}, true},
      {"output_norm.weight", 1, {h.dim}, false},
      {"", 2, {h.sequence, head_dim / 2}, false},  // cos and sin of the positions
  };
  if (!h.shared_output) parts.push_back({"output.weight", 1, {h.vocabulary, h.dim}, false});
  return parts;
}

// Nothing if it does not fit.
std::optional<std::uint64_t> file_bytes(const std::vector<Part>& parts) {
  std::uint64_t total = 7 * sizeof(std::int32_t);
  for (const Part& part : parts) {
    const auto one = stored_bytes(StorageType::f32, part.shape);
    const auto all = one ? checked_product(*one, static_cast<std::uint64_t>(part.count)) : one;
    if (!all || __builtin_add_overflow(total, *all, &total)) return std::nullopt;
  }
  return total;
}

Json describe(const Header& header) {
  return {{"dim", header.dim},
          {"hidden_dim", header.hidden_dim},
          {"n_layers", header.layers},
          {"n_heads", header.heads},
          {"n_kv_heads", header.kv_heads},
          {"vocab_size", header.vocabulary},
          {"seq_len", header.sequence},
          {"shared_classifier", header.shared_output}};
}

}  // namespace

Checkpoint parse_llama2c(std::span<const std::byte> bytes, const std::filesystem::path& name) {
  ByteReader reader(bytes, fmt::format("read llama2.c checkpoint {}", quote(name.string())));
  const Header header = read_header(reader);
  const std::vector<Part> parts = parts_of(header);
  const auto expected = file_bytes(parts);
  if (expected != bytes.size()) {
    fail("{}: expected {} bytes as its header says, found {}", reader.doing(),
         expected ? fmt::to_string(*expected) : "more than 2^63", bytes.size());
  }
  Checkpoint checkpoint{.format = CheckpointFormat::llama2c,
                        .path = name,
                        .metadata = describe(header),
                        .tensors = {},
                        .files = {},
                        .owned = {}};
  for (const Part& part : parts) {
    const std::size_t size = *stored_bytes(StorageType::f32, part.shape);
    for (std::int64_t i = 0; i < part.count; ++i) {
      const auto data = bytes.subspan(reader.position(), size);
      reader.skip(size, part.name);
      if (part.name.empty()) continue;
      checkpoint.tensors.push_back(
          {part.per_layer ? fmt::format("blk.{}.{}", i, part.name) : std::string(part.name),
           StorageType::f32, part.shape, data});
    }
  }
  return checkpoint;
}

Checkpoint read_llama2c(const std::filesystem::path& file) {
  MappedFile mapped(file);
  Checkpoint checkpoint = parse_llama2c(mapped.bytes(), file);
  mapped.check_whole();
  checkpoint.files.push_back(std::move(mapped));
  return checkpoint;
}

}  // namespace talon
