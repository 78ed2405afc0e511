#include "runtime/heads/head_kind.h"

#include "core/error.h"
#include "draft/block/block_config.h"
#include "draft/gemma4_assistant/assistant_config.h"
#include "draft/head/head_config.h"
#include "draft/head/head_tensors.h"
#include "draft/medusa/medusa_weights.h"
#include "io/quote.h"
#include "model/load/prediction_layer.h"

namespace talon {

std::string kind_of_head(const Checkpoint& checkpoint) {
  if (is_medusa_head(checkpoint)) return "medusa";
  if (is_block_head(checkpoint)) {
    const BlockConfig config = read_block_config(checkpoint, block_tensors(checkpoint));
    return config.markov_rank > 0 ? "dspark" : "dflash";
  }
  if (is_prediction_layer_alone(checkpoint) || is_gemma4_assistant(checkpoint)) return "mtp";
  if (!is_draft_head(checkpoint)) return "";
  switch (read_head_config(checkpoint, HeadTensors(checkpoint)).generation) {
    case HeadGeneration::eagle1:
      return "eagle2";
    case HeadGeneration::eagle3:
      return "eagle3";
    case HeadGeneration::peagle:
      return "peagle";
  }
  throw Bug("a generation of heads without a drafter");
}

void check_head_fits(const Checkpoint& head, const ModelConfig& target) {
  if (is_medusa_head(head)) return check_medusa_fits(head, target);
  if (is_block_head(head)) {
    const HeadTensors tensors = block_tensors(head);
    fit_to_target(read_block_config(head, tensors), target, tensors.doing());
    return;
  }
  if (is_gemma4_assistant(head)) return check_gemma4_assistant_fits(head, target);
  if (is_prediction_layer_alone(head)) {
    const std::string problem = prediction_problem(head, target);
    if (!problem.empty()) fail("load head {}: {}", quote(head.path.string()), problem);
    return;
  }
  const HeadTensors tensors(head);
  fit_to_target(read_head_config(head, tensors), target, tensors.doing());
}

}  // namespace talon
