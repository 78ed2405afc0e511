#pragma once

#include "io/checkpoint.h"
#include "io/json.h"
#include "model/config/config.h"

namespace talon {

/// Of a model that draws: {"layout", "vq", "missing"}, "words" or "class_names" of one that is
/// asked by them. Files that are not there have {"problem": reason}; missing: what a picture takes
/// and does not lie beside the model.
Json inspect_pictures(const Checkpoint& model, const ImagePlan& plan, bool has_tokenizer);

/// Whether a file is a tokenizer of pictures and nothing else.
bool is_picture_tokenizer(const Checkpoint& checkpoint);
/// {"architecture", "layout", "codebook", "cell_pixels", "encoder", "decoder"}; codebook: codes and
/// their width, cell_pixels: of the side of a cell.
Json describe_picture_tokenizer(const Checkpoint& checkpoint);

}  // namespace talon
