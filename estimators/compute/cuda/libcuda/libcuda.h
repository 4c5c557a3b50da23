/* What the archive libcuda.a says beyond the driver's own functions. */

/* Sets *code to the first failure (a CUresult; 0 when all is well, -1 when there is no driver library)
 * and returns dlopen's message or "". */
const char *libcuda_problem(int *code);
