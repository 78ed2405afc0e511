#include "fuzz_target.h"
#include "io/json_text.h"
#include "io/parse.h"
#include "model/rope.h"

namespace talon {
namespace {

// The first byte says where the configuration comes from; the rest is its JSON text, or a file.
Checkpoint make_checkpoint(char source, std::span<const std::byte> rest) {
  if (source == 'G') return parse_gguf(rest, "fuzz");
  if (source == 'L') return parse_llama2c(rest, "fuzz");
  Checkpoint checkpoint;
  checkpoint.format = source == 'g' ? CheckpointFormat::gguf : CheckpointFormat::hugging_face;
  checkpoint.path = "fuzz";
  checkpoint.metadata = parse_json(fuzz::text_of(rest), "read fuzz");
  if (!checkpoint.metadata.is_object()) fail("read fuzz: expected an object");
  return checkpoint;
}

}  // namespace
}  // namespace talon

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace talon;
  if (size == 0) return 0;
  fuzz::run([&] {
    const Checkpoint checkpoint =
        make_checkpoint(static_cast<char>(data[0]), fuzz::bytes_of(data, size).subspan(1));
    const ModelConfig config = read_model_config(checkpoint);
    constexpr int kPositions = 4;
    const int width = rope_width(config.rope, config, LayerPlan::Rope::global);
    RopeAngles(config.rope, width).rows(0, kPositions);
  });
  return 0;
}
