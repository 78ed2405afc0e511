#pragma once

#include <vector>

#include "io/json.h"
#include "train/image/training_run.h"

namespace talon {

/// What the network of `features` says of each set of pictures, a line each: first of pictures that
/// nobody drew, "real" (held out from training, as the prompts of the first set ask for them),
/// "reconstructed" (the same by way of the tokenizer, if there is one) and "trained on" (as many
/// pictures of the others as the first set has), then of the sets.
///
/// They are held against the pictures of "real" and those to train on of the same categories; if
/// "real" has too few of them for that, against all of the data.
///
///   count                of its pictures
///   reference            what it is held against, "held out, of the prompts" or "held out", and
///   reference_count      of how many pictures
///   style, category      shares whose style and category are what was asked for; both: of both
///   words                mean over pictures of the average precision of the words asked for
///   fd, fd_error         frechet_distance() to the reference, and its standard error
///   kid, kid_error       kernel_distance() to them
///   precision, recall    covered_share() beside them, by three neighbours
///   copies               share nearer to a picture that was trained on than 99 of 100 held-out
///                        ones of the same categories are
///   fd_first, kid_first  to the first set; with _error
///
/// Throws Error naming the file of a picture without a prompt, of a prompt that the data do not
/// have, or of another size. Empty if it was stopped.
std::vector<Json> compare_pictures(const CompareOptions& options, const TrainingHooks& hooks);

}  // namespace talon
