// Random draft heads of every kind for a model, to measure what drafting costs before a head is
// trained.
//   random_heads MODEL FOLDER [DRAFT_VOCABULARY]
#include <cstdlib>
#include <iostream>

#include "io/checkpoint.h"
#include "random_heads.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "random_heads MODEL FOLDER [DRAFT_VOCABULARY]\n";
    return 2;
  }
  const talon::ModelConfig target = talon::read_model_config(talon::open_checkpoint(argv[1]));
  for (const auto& head :
       talon::test::write_random_heads(argv[2], target, argc > 3 ? std::atoi(argv[3]) : 0)) {
    std::cout << head.string() << "\n";
  }
}
