/* SPDX-License-Identifier: Apache-2.0
 *
 * pillion._range: record_function's base type. Written by hand, because the way through a Python method and cffi would
 * cost several times what the range itself costs. Stable ABI; the GIL protects what is static here.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "range.h"

typedef struct {
    PyObject_HEAD
    PyObject *name; /* exactly a str */
    PyObject *args; /* exactly a str, or None */
    struct pln_token token;
    enum { OUTSIDE, INSIDE, KEPT_OPEN } state; /* KEPT_OPEN: leaving the block does not end the range */
} Range;

/* ---- string ids ---- */

/* Direct mapped by hash. An entry holds no reference: a string that died may have left its address to another one, but
 * not with the same 64-bit hash. */
#define CACHE_SLOTS 512

static struct {
    PyObject *text;
    Py_hash_t hash;
    uint32_t generation;
    uint32_t id;
} cache[CACHE_SLOTS];

static uint32_t intern(PyObject *text) {
    Py_ssize_t size;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    if (utf8 != NULL)
        return pln_intern(utf8, (size_t)size);
    PyErr_Clear(); /* lone surrogates */
    uint32_t id = 0;
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    if (bytes != NULL)
        id = pln_intern(PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
    else
        PyErr_Clear(); /* out of memory: the range goes without a name */
    Py_XDECREF(bytes);
    return id;
}

static uint32_t string_id(PyObject *text) {
    Py_hash_t hash = PyObject_Hash(text);
    size_t slot = (size_t)hash % CACHE_SLOTS;
    uint32_t generation = pln_generation();
    if (cache[slot].text == text && cache[slot].hash == hash && cache[slot].generation == generation)
        return cache[slot].id;
    uint32_t id = intern(text);
    cache[slot].text = text;
    cache[slot].hash = hash;
    cache[slot].generation = generation;
    cache[slot].id = id;
    return id;
}

/* ---- the type ---- */

/* A new reference to an exact str: a subclass may hash as it likes. NULL with RuntimeError, as torch raises. */
static PyObject *exact_text(PyObject *value, const char *what) {
    if (PyUnicode_CheckExact(value)) {
        Py_INCREF(value);
        return value;
    }
    if (PyUnicode_Check(value))
        return PyUnicode_FromObject(value);
    PyErr_Format(PyExc_RuntimeError, "record_function: %s must be a str, not %R", what, (PyObject *)Py_TYPE(value));
    return NULL;
}

static int parse(PyObject *args, PyObject *kwargs, PyObject **name, PyObject **range_args) {
    static char *keywords[] = {"name", "args", NULL};
    if (kwargs != NULL || PyTuple_Size(args) != 1) /* PyArg_ costs as much as the rest of a range */
        return PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:record_function", keywords, name, range_args);
    *name = PyTuple_GetItem(args, 0);
    return 1;
}

static int range_init(PyObject *object, PyObject *args, PyObject *kwargs);

/* Whether range_init() is all that initializes objects of a type: then range_new() has done it already, in one pass. */
static int is_plain(PyTypeObject *type) {
    return PyType_GetSlot(type, Py_tp_init) == (void *)range_init;
}

static int set_texts(Range *self, PyObject *args, PyObject *kwargs) {
    PyObject *name, *range_args = Py_None;
    if (!parse(args, kwargs, &name, &range_args))
        return -1;
    name = exact_text(name, "name");
    if (name == NULL)
        return -1;
    if (range_args == Py_None)
        Py_INCREF(range_args);
    else
        range_args = exact_text(range_args, "args");
    if (range_args == NULL) {
        Py_DECREF(name);
        return -1;
    }
    PyObject *name_before = self->name, *args_before = self->args;
    self->name = name;
    self->args = range_args;
    Py_XDECREF(name_before);
    Py_XDECREF(args_before);
    return 0;
}

static PyObject *range_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Range *self = (Range *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    if (is_plain(type)) {
        if (set_texts(self, args, kwargs) == 0)
            return (PyObject *)self;
        Py_DECREF(self);
        return NULL;
    }
    /* A subclass with an __init__ of its own calls ours with the name, or leaves the range without one. */
    Py_INCREF(Py_None);
    self->args = Py_None;
    self->name = PyUnicode_FromStringAndSize(NULL, 0);
    if (self->name == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int range_init(PyObject *object, PyObject *args, PyObject *kwargs) {
    return is_plain(Py_TYPE(object)) ? 0 : set_texts((Range *)object, args, kwargs);
}

static void range_dealloc(PyObject *object) {
    Range *self = (Range *)object;
    PyTypeObject *type = Py_TYPE(object);
    pln_end(&self->token); /* a generator that was dropped inside its range */
    Py_XDECREF(self->name);
    Py_XDECREF(self->args);
    if (PyType_GetFlags(type) & Py_TPFLAGS_HAVE_GC) /* a subclass with a __dict__ */
        PyObject_GC_Del(object);
    else
        PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *range_enter(PyObject *object, PyObject *unused) {
    Range *self = (Range *)object;
    (void)unused;
    if (self->state != OUTSIDE) {
        PyErr_SetString(PyExc_RuntimeError, "record_function: entered twice; use one object for each nested range");
        return NULL;
    }
    self->state = INSIDE;
    if (pln_active())
        pln_begin(&self->token, string_id(self->name), self->args != Py_None ? string_id(self->args) : 0,
                  PLN_SOURCE_RECORD_FUNCTION);
    Py_INCREF(object);
    return object;
}

static PyObject *range_exit(PyObject *object, PyObject *const *exception, Py_ssize_t count) {
    Range *self = (Range *)object;
    (void)exception;
    (void)count;
    if (self->state == KEPT_OPEN)
        Py_RETURN_NONE;
    if (self->state == OUTSIDE) {
        PyErr_SetString(PyExc_AssertionError, "record_function: __exit__ without __enter__");
        return NULL;
    }
    self->state = OUTSIDE;
    pln_end(&self->token);
    Py_RETURN_NONE;
}

static PyObject *range_keep_open(PyObject *object, PyObject *unused) {
    Range *self = (Range *)object;
    (void)unused;
    if (self->state == INSIDE) {
        self->state = KEPT_OPEN;
        Py_RETURN_NONE;
    }
    if (self->state == KEPT_OPEN)
        PyErr_SetString(PyExc_RuntimeError, "_call_end_callbacks_on_future can only be called once.");
    else
        PyErr_SetString(PyExc_AssertionError, "record_function: only a range that was entered can be kept open");
    return NULL;
}

static PyObject *range_end(PyObject *object, PyObject *unused) {
    (void)unused;
    pln_end(&((Range *)object)->token);
    Py_RETURN_NONE;
}

static PyMethodDef range_methods[] = {
    {"__enter__", range_enter, METH_NOARGS, "Begins the range; returns self."},
    {"__exit__", (PyCFunction)(void (*)(void))range_exit, METH_FASTCALL, "Ends the range; lets exceptions pass."},
    {"_keep_open", range_keep_open, METH_NOARGS, "From now on leaving the block does not end the range: _end() does."},
    {"_end", range_end, METH_NOARGS, "Ends a range that was kept open; from any thread."},
    {NULL},
};

static PyMemberDef range_members[] = {
    {"name", T_OBJECT, offsetof(Range, name), READONLY, "The range's name."},
    {"args", T_OBJECT, offsetof(Range, args), READONLY, "What tells ranges of one name apart, or None."},
    {NULL},
};

static PyType_Slot range_slots[] = {
    {Py_tp_doc, "_Range(name, args=None)\n--\n\nA named range of the calling thread, as a context manager."},
    {Py_tp_new, range_new},
    {Py_tp_init, range_init},
    {Py_tp_dealloc, range_dealloc},
    {Py_tp_methods, range_methods},
    {Py_tp_members, range_members},
    {0},
};

static PyType_Spec range_spec = {
    .name = "pillion._range._Range",
    .basicsize = sizeof(Range),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = range_slots,
};

static int execute(PyObject *module) {
    PyObject *type = PyType_FromSpec(&range_spec);
    if (type == NULL || PyModule_AddObject(module, "_Range", type) != 0) {
        Py_XDECREF(type);
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, execute},
    {0},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_range",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__range(void) {
    return PyModuleDef_Init(&module_definition);
}
