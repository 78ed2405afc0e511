#include "fuzz_checkpoint.h"
#include "io/parse.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  talon::fuzz::check_checkpoint(talon::parse_safetensors, talon::fuzz::bytes_of(data, size));
  return 0;
}
