#pragma once

#include "draft/registry.h"

namespace talon {

DrafterEntry none_drafter();
DrafterEntry ngram_drafter();
DrafterEntry suffix_drafter();
DrafterEntry grid_drafter();
DrafterEntry jacobi_drafter();
DrafterEntry lookahead_drafter();
DrafterEntry eagle1_drafter();
DrafterEntry eagle2_drafter();
DrafterEntry eagle3_drafter();
DrafterEntry medusa_drafter();
DrafterEntry mtp_drafter();
DrafterEntry model_drafter();
DrafterEntry dflash_drafter();
DrafterEntry dspark_drafter();
DrafterEntry peagle_drafter();

}  // namespace talon
