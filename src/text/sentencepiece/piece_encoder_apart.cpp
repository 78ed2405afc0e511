#include <dlfcn.h>

#include "text/sentencepiece/piece_encoder.h"

// Debian's sentencepiece carries a protobuf of its own, of another version than libtorch's, under
// the same names. Loaded like this it finds its own first.
talon::PieceEncoder* talon_make_piece_encoder(const std::string& model, std::string& problem) {
  void* module = dlopen("libtalon-sentencepiece.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  void* found = module == nullptr ? nullptr : dlsym(module, "talon_make_piece_encoder");
  if (found == nullptr) {
    problem = dlerror();
    return nullptr;
  }
  return reinterpret_cast<decltype(&talon_make_piece_encoder)>(found)(model, problem);
}
